"""Numbers over the steps: losses, what the script logged, learning rates; read span by span, and reduced."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from barograph.measures.thinning import COLUMNS, kept_points
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.report.content import Curve
from barograph.runs.reading.bundle import SeriesName, bundles, in_order
from barograph.runs.reading.reader import Run
from barograph.runs.reading.windows import windows_of

MOST_NUMBERS = 60
"""Most logged numbers and learning rates that a report holds."""


class CurveMaker:
    """Makes a curve of parts that come one after the other.

    Args:
        key: Of what.
        mode, optimizer: See `Curve`.
        low, high: The first and the last step of the chart.
        columns: Of pixels.
    """

    def __init__(self, key: str, mode: Mode, optimizer: str, *, low: int, high: int, columns: int = COLUMNS) -> None:
        self._what = (key, mode.value, optimizer)
        self._low, self._high, self._columns = low, high, columns
        self._steps: list[NDArray[np.int64]] = []
        self._values: list[NDArray[np.float64]] = []
        self._count = self._nonfinite = 0
        self._first, self._last = math.nan, math.nan
        self._least, self._greatest = (math.nan, -1), (math.nan, -1)

    def add(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Take in more points; as many steps as values, later than those before."""
        if not len(steps):
            return
        if not self._count:
            self._first = float(values[0])
        self._last = float(values[-1])
        self._count += len(steps)
        finite = np.flatnonzero(np.isfinite(values))
        self._nonfinite += len(steps) - len(finite)
        if len(finite):
            low, high = finite[np.argmin(values[finite])], finite[np.argmax(values[finite])]
            if not values[low] >= self._least[0]:
                self._least = (float(values[low]), int(steps[low]))
            if not values[high] <= self._greatest[0]:
                self._greatest = (float(values[high]), int(steps[high]))
        kept = kept_points(steps.astype(np.float64), values, low=self._low, high=self._high, columns=self._columns)
        self._steps.append(steps[kept])
        self._values.append(values[kept])

    def curve(self) -> Curve:
        """Return the curve of what was taken in."""
        steps = np.concatenate([*self._steps, np.empty(0, np.int64)])
        values = np.concatenate([*self._values, np.empty(0)])
        # Spans meet within a column.
        kept = kept_points(steps.astype(np.float64), values, low=self._low, high=self._high, columns=self._columns)
        return Curve(
            *self._what, count=self._count, first=self._first, last=self._last,
            least=self._least[0], greatest=self._greatest[0], least_step=self._least[1],
            greatest_step=self._greatest[1], nonfinite=self._nonfinite,
            steps=tuple(steps[kept].tolist()), values=tuple(values[kept].tolist()),
        )


def curves_of(run: Run, kind: Kind, only: Collection[Key] | None = None) -> list[Curve]:
    """Return every plain number of a kind, in the order of `series_names`.

    Args:
        run: Which.
        kind: Of what.
        only: Only these keys; None: all.

    Raises:
        StoreError: The store cannot be read.
    """
    if only is not None and all(key.kind != kind for key in only):
        return []
    windows = windows_of(run, kind)
    makers: dict[SeriesName, CurveMaker] = {}
    for start, stop in windows:
        for mode, optimizer, (series,) in bundles(run, kind, only=only, start=start, stop=stop):
            what = SeriesName(series.key, mode, optimizer)
            if what not in makers:
                makers[what] = CurveMaker(str(series.key), mode, optimizer, low=windows.low, high=windows.high)
            makers[what].add(series.steps, series.values)
    return [makers[what].curve() for what in sorted(makers, key=in_order)]
