"""Losses, learning rates and logged numbers of a run over its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from barograph.model.key import Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.runs.reading.bundle import bundles
from barograph.runs.reading.inventory import natural_order
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.series import Series

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


def thinned(steps: Sequence[int], values: Sequence[float], most: int = 200) -> tuple[list[int], list[float]]:
    """Return at most so many points of a series, evenly spread, the last one among them.

    Example:
        >>> thinned([0, 1, 2, 3, 4], [0.0, 0.1, 0.2, 0.3, 0.4], most=3)
        ([0, 2, 4], [0.0, 0.2, 0.4])
    """
    stride = max(1, math.ceil((len(steps) - 1) / max(1, most - 1)))
    picked = range((len(steps) - 1) % stride, len(steps), stride)
    return [steps[index] for index in picked], [values[index] for index in picked]
