"""Losses, learning rates and logged numbers of a run over its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from barograph.measures.thinning import kept_points
from barograph.model.key import Key, Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.runs.reading.bundle import bundles
from barograph.runs.reading.inventory import natural_order
from barograph.runs.reading.metrics import HYPERPARAMETER
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.series import Series

_TOTAL = Key(Kind.LOSS, "total")
_KINDS = (Kind.LOSS, Kind.SCALAR, Kind.LEARNING_RATE)


@dataclass(frozen=True, slots=True)
class Number:
    """One number over the steps.

    Attributes:
        series: All its values.
        mode: Mode of the steps.
        optimizer: Optimizer of the steps; "" if the run has one.
    """

    series: Series
    mode: Mode
    optimizer: str

    @property
    def first(self) -> float:
        """The first value."""
        return float(self.series.values[0])

    @property
    def last(self) -> float:
        """The last value."""
        return float(self.series.values[-1])

    @property
    def constant(self) -> bool:
        """Whether it is a hyperparameter, or several values that are the same number."""
        values = self.series.values
        if self.series.key.path.startswith(HYPERPARAMETER) and len(values) == 1:
            return True
        return len(values) > 1 and bool(np.all(values == values[0]))

    def least(self) -> tuple[float, int]:
        """Return the least finite value and its step; NaN and -1 if no value is finite."""
        values = self.series.values
        finite = np.flatnonzero(np.isfinite(values))
        if not len(finite):
            return math.nan, -1
        row = finite[int(np.argmin(values[finite]))]
        return float(values[row]), int(self.series.steps[row])

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data, with at most 200 points."""
        least, least_step = self.least()
        steps, values = thinned(self.series.steps.tolist(), self.series.values.tolist())
        data: dict[str, Any] = plain({
            "key": str(self.series.key), "mode": self.mode, "optimizer": self.optimizer, "count": len(self.series),
            "first": self.first, "last": self.last, "least": least, "least_step": least_step, "steps": steps,
            "values": values,
        })
        return data


def numbers_of(run: RunReader) -> list[Number]:
    """Return every plain number of the run: losses first, then logged numbers, then learning rates.

    Raises:
        StoreError: The store cannot be read.
    """
    modes = list(Mode)
    numbers: list[Number] = []
    for kind in _KINDS:
        found = [Number(series, mode, optimizer) for mode, optimizer, (series,) in bundles(run, kind)]
        # Those of one optimizer and mode come together; sorting keeps their order.
        numbers += sorted(found, key=lambda number: (natural_order(number.optimizer), modes.index(number.mode)))
    return numbers


def without_repeats(numbers: Sequence[Number]) -> list[Number]:
    """Return numbers without a total loss that equals another loss of the same mode and optimizer at every step."""
    return [number for number in numbers if not (
        number.series.key == _TOTAL and any(_repeats(number, other) for other in numbers))]


def _repeats(number: Number, other: Number) -> bool:
    return (other is not number and other.series.key.kind is Kind.LOSS
            and (other.mode, other.optimizer) == (number.mode, number.optimizer)
            and np.array_equal(other.series.steps, number.series.steps)
            and np.array_equal(other.series.values, number.series.values, equal_nan=True))


def thinned(steps: Sequence[int], values: Sequence[float], most: int = 200) -> tuple[list[int], list[float]]:
    """Return at most so many points of a series: both ends, and the extremes of each part of it.

    Example:
        >>> thinned([0, 1, 2, 3, 4, 5], [1.0, 9.0, 2.0, 3.0, -5.0, 4.0], most=5)
        ([0, 1, 4, 5], [1.0, 9.0, -5.0, 4.0])
    """
    if len(steps) <= most:
        return list(steps), list(values)
    places = np.asarray(steps, np.float64)
    kept = kept_points(places, np.asarray(values, np.float64), low=places[0], high=places[-1], columns=(most - 2) // 3)
    return [steps[index] for index in kept], [values[index] for index in kept]
