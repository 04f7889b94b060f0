"""Counts of each target class, and of each pair of target and prediction."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.buffer import StepBuffer

MOST_CLASSES = 1000
"""With more classes, only the smallest and the largest label are recorded."""

MOST_PAIRS = 4096
"""Pairs of target and prediction recorded per step or evaluation: the most frequent."""

LEFT_OUT = -1
"""Code of labels to ignore."""

_DENSE = 1 << 16


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Counts the targets and predictions of one loss.

    Attributes:
        name: Name of the loss function, or one given by the script.
        classes: Number of classes.
        answered: Codes are target * classes + prediction; otherwise just the target.
        counted: Record counts of labels and pairs.
        ranged: Record the smallest and the largest label.
    """

    name: str
    classes: int
    answered: bool
    counted: bool
    ranged: bool

    def record(self, buffer: StepBuffer, codes: NDArray[Any], training: bool) -> None:
        """Add the counts to a buffer; codes below 0 are ignored."""
        values, times = _count(codes[codes > LEFT_OUT], self.classes**2 if self.answered else self.classes)
        labels = values // self.classes if self.answered else values
        if self.ranged:
            add_range(buffer, labels, self.classes)
        if not self.counted or self.classes > MOST_CLASSES:
            return
        if self.answered:
            self._record_pairs(buffer, values, times)
            labels, places = np.unique(labels, return_inverse=True)
            times = np.bincount(places, weights=times, minlength=len(labels))
        for label, number in zip(labels.tolist(), times.tolist(), strict=True):
            _add(buffer, _label_key(self.name, label), number)

    def _record_pairs(self, buffer: StepBuffer, values: NDArray[Any], times: NDArray[Any]) -> None:
        if len(values) > MOST_PAIRS:
            most = np.argsort(-times, kind="stable")[:MOST_PAIRS]
            values, times = values[most], times[most]
        for value, number in zip(values.tolist(), times.tolist(), strict=True):
            _add(buffer, _pair_key(self.name, *divmod(value, self.classes)), number)


def add_range(buffer: StepBuffer, labels: NDArray[Any], classes: int) -> None:
    """Add the smallest and the largest label to a buffer that may have those of another loss."""
    key = fact(Fact.CLASSES)
    buffer.scalars[key] = max(float(classes), buffer.scalars.get(key, 0.0))
    if not len(labels):
        return
    low, high = fact(Fact.LABEL_MIN), fact(Fact.LABEL_MAX)
    buffer.scalars[low] = min(float(labels.min()), buffer.scalars.get(low, np.inf))
    buffer.scalars[high] = max(float(labels.max()), buffer.scalars.get(high, -np.inf))


def _add(buffer: StepBuffer, key: Key, number: float) -> None:
    buffer.scalars[key] = buffer.scalars.get(key, 0.0) + number


@functools.lru_cache(maxsize=4096)
def _label_key(name: str, label: int) -> Key:
    return Key(Kind.LABEL, f"{name}[{label}]")


@functools.lru_cache(maxsize=16384)
def _pair_key(name: str, label: int, prediction: int) -> Key:
    return Key(Kind.CONFUSION, f"{name}[{label},{prediction}]")


def _count(codes: NDArray[Any], width: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct codes in ascending order, and their counts."""
    if len(codes) and width <= _DENSE and codes.max() < width:
        counts = np.bincount(codes, minlength=width)
        values = np.flatnonzero(counts)
        return values, counts[values]
    return np.unique(codes, return_counts=True)
