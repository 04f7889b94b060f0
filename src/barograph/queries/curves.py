"""Losses, logged scalars and learning rates over the steps, read in parts and reduced."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.measures.thinning import COLUMNS, kept_points
from barograph.model.key import Key, Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.runs.reading.bundle import SeriesName, bundles, in_order
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.windows import windows_of


@dataclass(frozen=True, slots=True)
class Curve:
    """A series of numbers over the steps.

    Attributes:
        key: Key such as "loss:total", or a name.
        mode: Its mode.
        optimizer: Optimizer that counts the steps; "" if there is only one.
        count: Number of recorded points.
        first, last: First and last value.
        least, greatest: Minimum and maximum of the finite values; NaN if there are none.
        least_step, greatest_step: Their steps; -1 if there are none.
        nonfinite: Number of NaN and infinite values.
        steps, values: Reduced to what a chart can show.
    """

    key: str
    mode: str
    optimizer: str
    count: int
    first: float
    last: float
    least: float
    greatest: float
    least_step: int
    greatest_step: int
    nonfinite: int
    steps: tuple[int, ...]
    values: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


class CurveMaker:
    """Builds a curve from consecutive parts.

    Args:
        key: Key of the curve.
        mode, optimizer: See `Curve`.
        low, high: First and last step of the chart.
        columns: Number of pixel columns.
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
        """Add points, later than those before."""
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
        """Return the curve of all points."""
        steps = np.concatenate([*self._steps, np.empty(0, np.int64)])
        values = np.concatenate([*self._values, np.empty(0)])
        # Parts may meet within a pixel column.
        kept = kept_points(steps.astype(np.float64), values, low=self._low, high=self._high, columns=self._columns)
        return Curve(
            *self._what, count=self._count, first=self._first, last=self._last,
            least=self._least[0], greatest=self._greatest[0], least_step=self._least[1],
            greatest_step=self._greatest[1], nonfinite=self._nonfinite,
            steps=tuple(steps[kept].tolist()), values=tuple(values[kept].tolist()),
        )


def curves_of(
    run: RunReader, kind: Kind, only: Collection[Key] | None = None, *, columns: int = COLUMNS
) -> list[Curve]:
    """Return every scalar of a kind, in the order of `series_names`.

    Args:
        run: The run.
        kind: Kind of the scalars.
        only: Only these keys; None: all.
        columns: Pixel columns of a chart; at most three points of each are kept.

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
                makers[what] = CurveMaker(str(series.key), mode, optimizer, low=windows.low, high=windows.high,
                                          columns=columns)
            makers[what].add(series.steps, series.values)
    return [makers[what].curve() for what in sorted(makers, key=in_order)]
