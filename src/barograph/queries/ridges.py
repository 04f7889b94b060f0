"""The distribution of one tensor at several steps, by sign and power of two: rows of a ridge plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from barograph.errors import UnknownKey
from barograph.model.key import Key, Kind
from barograph.model.plain import plain
from barograph.model.summary import Summary
from barograph.runs.reading.histograms import steps_with_histogram
from barograph.runs.reading.reader import RunReader

MOST_ROWS = 16
KINDS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.OUTPUT)

_SIGN = 256
_BIAS = 127
_SMALLEST_SHARE = 1e-4
"""Bins at the edges with a smaller share of the elements at every step are left out."""


@dataclass(frozen=True, slots=True)
class Ridges:
    """The distribution of a tensor over the steps.

    Attributes:
        key: Key of the tensor.
        steps: Steps, in ascending order.
        exponents: Powers of two; the bin of k has the elements with 2**k <= |x| < 2**(k + 1).
        negative, positive: For each step, the share of all elements in each bin, by sign.
        zeros: For each step, the share of zeros.
        nonfinite: For each step, the number of NaN and infinite elements.
        means, stds: For each step, mean and standard deviation of the finite elements.
    """

    key: str
    steps: tuple[int, ...]
    exponents: tuple[int, ...]
    negative: tuple[tuple[float, ...], ...]
    positive: tuple[tuple[float, ...], ...]
    zeros: tuple[float, ...]
    nonfinite: tuple[int, ...]
    means: tuple[float, ...]
    stds: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def ridge_keys(run: RunReader) -> list[Key]:
    """Return the keys of tensors whose distributions may be drawn: weights, gradients, updates and outputs."""
    return [key for kind in KINDS for key in run.keys(kind)]


def ridges_of(run: RunReader, key: Key, *, most_rows: int = MOST_ROWS) -> Ridges:
    """Return the distribution of a tensor at evenly spaced steps with a histogram.

    Args:
        run: The run.
        key: Its key.
        most_rows: Maximum number of steps.

    Raises:
        UnknownKey: The tensor has no histogram at any step.
        StoreError: The store cannot be read.
    """
    known = steps_with_histogram(run, key).tolist()
    if not known:
        raise UnknownKey(f"{key} has no histogram in this run. Record histograms: barograph run --preset exact.")
    steps = [known[at] for at in np.unique(
        np.linspace(0, len(known) - 1, min(most_rows, len(known))).round().astype(int)).tolist()]
    summaries = [run.summary(key, step) for step in steps]
    shares = np.array([_shares(summary) for summary in summaries])
    filled = np.flatnonzero((shares > _SMALLEST_SHARE).any((0, 1)))
    bins = range(int(filled[0]), int(filled[-1]) + 1) if len(filled) else range(0)
    return Ridges(
        str(key), tuple(steps), tuple(number - _BIAS for number in bins),
        negative=_rows(shares[:, 1, bins.start:bins.stop]), positive=_rows(shares[:, 0, bins.start:bins.stop]),
        zeros=tuple(summary.sparsity for summary in summaries),
        nonfinite=tuple(summary.nonfinite for summary in summaries),
        means=tuple(float(summary.mean) for summary in summaries),
        stds=tuple(float(summary.std) for summary in summaries))


def _shares(summary: Summary) -> list[list[float]]:
    """Return the shares of the elements by sign (positive first) and exponent field."""
    found = [[0.0] * _SIGN, [0.0] * _SIGN]
    counted = sum(summary.exponents.values())
    share = (1 - summary.sparsity) / counted if counted else 0.0
    for index, count in summary.exponents.items():
        found[index // _SIGN][index % _SIGN] = count * share
    return found


def _rows(shares: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{share:.4g}") for share in row) for row in shares.tolist())
