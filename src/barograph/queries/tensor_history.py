"""One tensor over the steps: exponent histograms, and the units of a layer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import UnknownKey, UnknownStep
from barograph.measures.formats import FORMATS
from barograph.model.key import Key, Kind
from barograph.model.plain import plain
from barograph.model.records import UnitSummaries
from barograph.model.step import Mode
from barograph.model.summary import UNIT_FIELDS
from barograph.runs.format.events import dictionary_column
from barograph.runs.reading.layers import layer_path
from barograph.runs.reading.reader import RunReader

MOST_COLUMNS = 160
"""Maximum number of columns of a histogram over the steps."""

MOST_UNITS = 512
"""Maximum number of units of a tensor."""

_SIGN, _BIAS = 256, 127


@dataclass(frozen=True, slots=True)
class ExponentMap:
    """Magnitudes of a tensor over the steps, as powers of two.

    Attributes:
        key: Key of the tensor.
        steps: First and last step with a histogram of each column.
        exponents: The powers, ascending without gaps: a row for 2**e <= |x| < 2**(e + 1). () if all is zero, NaN or
            infinite.
        shares: For each column, the share of the elements in each row, from 0 to 1.
        zeros, nonfinite: For each column, the share of elements that are zero, and that are NaN or infinite.
        count: Number of elements of the tensor.
    """

    key: str
    steps: tuple[tuple[int, int], ...]
    exponents: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]
    zeros: tuple[float, ...]
    nonfinite: tuple[float, ...]
    count: int

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data, shares with four digits."""
        return {"key": self.key, "steps": [list(span) for span in self.steps], "exponents": list(self.exponents),
                "shares": [[float(f"{share:.4g}") for share in column] for column in self.shares],
                "zeros": plain(self.zeros), "nonfinite": plain(self.nonfinite), "count": self.count}


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a number format.

    Attributes:
        name: "fp16 max", "fp16 smallest normal", "fp16 smallest".
        log2: Its binary logarithm.
    """

    name: str
    log2: float


@dataclass(frozen=True, slots=True)
class Units:
    """The units (channels, neurons) of a tensor at one step.

    Attributes:
        key: Key of the tensor.
        step: The step.
        count: Number of units.
        elements: Number of elements of each.
        zeros: Share of zeros of each unit, from 0 to 1; of the first `MOST_UNITS`.
        rms: Root mean square of each.
        dead: Number of units that are zero in every element.
    """

    key: str
    step: int
    count: int
    elements: int
    zeros: tuple[float, ...]
    rms: tuple[float, ...]
    dead: int

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data, numbers with four digits."""
        data: dict[str, Any] = plain(self)
        for name in ("zeros", "rms"):
            data[name] = [None if value is None else float(f"{value:.4g}") for value in data[name]]
        return data


LIMITS: Sequence[Limit] = tuple(
    Limit(f"{name} {what}", math.log2(value)) for name, each in FORMATS.items()
    for what, value in (("max", each.largest), ("smallest normal", each.smallest_normal),
                        ("smallest", each.smallest_subnormal)))
"""The limits of narrow number formats."""


def keys_of_layer(run: RunReader, layer: str, kind: Kind) -> list[Key]:
    """Return the keys of a kind that belong to a layer, sorted.

    Raises:
        StoreError: The store cannot be read.
    """
    paths = dictionary_column(run.arrow(kind, mode=Mode.TRAIN, columns=("path",)), "path")
    used = sorted({paths.texts[code] for code in np.unique(paths.codes).tolist()})
    return [key for path in used if layer_path(key := Key(kind, path)) == layer]


def exponent_map(run: RunReader, key: Key, *, columns: int = MOST_COLUMNS) -> ExponentMap:
    """Return the exponent histogram of a tensor over the training steps; columns without one are left out.

    Args:
        run: The run.
        key: Its key.
        columns: Maximum number of columns; those of several steps add their histograms.

    Raises:
        UnknownKey: The run has no histogram of it.
        StoreError: The store cannot be read.
    """
    table = run.arrow(key.kind, frozenset({key.path}), mode=Mode.TRAIN, columns=(
        "step", "count", "nan", "posinf", "neginf", "zeros", "exponents", "exponent_counts"))
    if len(table):
        # What is all zero, NaN or infinite has no bins to store.
        without = [table[name].to_numpy() for name in ("zeros", "nan", "posinf", "neginf")]
        empty = np.sum(without, axis=0) == table["count"].to_numpy()
        table = table.filter(np.logical_or(table["exponents"].is_valid().to_numpy(), empty))
    if not len(table):
        raise UnknownKey(f"No histogram of {key} was recorded.")
    row_steps = table["step"].to_numpy()
    steps = np.unique(row_steps)
    edges = np.linspace(0, len(steps), min(columns, len(steps)) + 1).astype(int)
    column = np.searchsorted(edges, np.searchsorted(steps, row_steps), side="right") - 1
    width = len(edges) - 1
    bins = _bins(table, column, width)
    count, zeros, broken = (np.bincount(column, sum(table[name].to_numpy().astype(np.float64) for name in names), width)
                            for names in (("count",), ("zeros",), ("nan", "posinf", "neginf")))
    sampled = bins.sum(axis=1)
    # The bins of a sampled histogram add up to less than the nonzero elements.
    nonzero = np.maximum(count - zeros - broken, 0.0)
    scale = np.divide(nonzero, sampled, out=np.zeros(width), where=sampled > 0) / np.maximum(count, 1.0)
    filled = np.flatnonzero(bins.any(axis=0))
    low, high = (int(filled[0]), int(filled[-1])) if len(filled) else (_BIAS, _BIAS - 1)
    shares = bins[:, low:high + 1] * scale[:, None]
    return ExponentMap(
        str(key), tuple((int(steps[first]), int(steps[stop - 1]))
                        for first, stop in itertools.pairwise(edges)),
        tuple(range(low - _BIAS, high - _BIAS + 1)), tuple(map(tuple, shares.tolist())),
        tuple((zeros / np.maximum(count, 1.0)).tolist()), tuple((broken / np.maximum(count, 1.0)).tolist()),
        int(table["count"].to_numpy()[-1]),
    )


def units_at(run: RunReader, key: Key, step: int) -> Units:
    """Return the units of a tensor at the last step with units that is not after `step`, or else the first.

    Raises:
        UnknownStep: No units of it were recorded.
        StoreError: The store cannot be read.
    """
    table = run.arrow(key.kind, frozenset({key.path}), mode=Mode.TRAIN, columns=("step", "unit_count"))
    steps = np.unique(table["step"].to_numpy()[table["unit_count"].is_valid().to_numpy()]) if len(table) \
        else np.empty(0, np.int64)
    if not len(steps):
        raise UnknownStep(f"No units of {key} were recorded.")
    shown = int(steps[max(0, int(np.searchsorted(steps, step, side="right")) - 1)])
    return _units(key, shown, run.units(key, shown))


def _bins(table: Any, column: NDArray[np.intp], width: int) -> NDArray[np.float64]:
    """Return the number of elements by column and magnitude, both signs together."""
    exponents, counts = table["exponents"].combine_chunks(), table["exponent_counts"].combine_chunks()
    lengths = np.diff(exponents.offsets.to_numpy())
    field = exponents.flatten().to_numpy().astype(np.int64) % _SIGN
    places = np.repeat(column, lengths) * _SIGN + field
    bins: NDArray[np.float64] = np.bincount(
        places, counts.flatten().to_numpy().astype(np.float64), width * _SIGN).astype(np.float64)
    return bins.reshape(width, _SIGN)


def _units(key: Key, step: int, found: UnitSummaries) -> Units:
    zeros, nonfinite, squares = (found.columns[:, UNIT_FIELDS.index(name)] for name in ("zeros", "nonfinite", "sum_sq"))
    elements = max(found.count, 1)
    return Units(
        str(key), step, len(zeros), found.count, tuple((zeros[:MOST_UNITS] / elements).tolist()),
        tuple(np.sqrt(squares[:MOST_UNITS] / np.maximum(elements - nonfinite[:MOST_UNITS], 1)).tolist()),
        int((zeros >= found.count).sum()),
    )
