"""A series reduced for drawing: buckets with their exact minimum and maximum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barograph.measures.buckets import BUCKET, Buckets, buckets_of_points, even_starts, merged_buckets
from barograph.model.key import Key
from barograph.runs.reading.series import Series


@dataclass(frozen=True, slots=True)
class Envelope:
    """A series in a few buckets of consecutive points. It keeps every spike, and counts non-finite points.

    Attributes:
        buckets: Array of `measures.buckets.BUCKET`, in recorded order. A short series has one bucket per point.
    """

    key: Key
    statistic: str
    buckets: Buckets

    def __len__(self) -> int:
        return len(self.buckets)

    @property
    def count(self) -> int:
        """Number of points, including non-finite ones."""
        return int(self.buckets["count"].sum())

    @property
    def nonfinite(self) -> int:
        """Number of points that are NaN or infinite."""
        return int(sum(self.buckets[name].sum() for name in ("nan", "posinf", "neginf")))

    def nonfinite_steps(self) -> NDArray[np.int64]:
        """Return the first and last step of each bucket that has a non-finite point; shape (n, 2)."""
        buckets = self.buckets
        broken = buckets[(buckets["nan"] > 0) | (buckets["posinf"] > 0) | (buckets["neginf"] > 0)]
        return np.stack([broken["first_step"], broken["last_step"]], axis=1)

    def line(self) -> Series:
        """Return the points to draw: the minimum and maximum of each bucket, in the order of their steps.

        A bucket without a finite point becomes one NaN, which interrupts the line.
        """
        buckets = self.buckets
        some = np.isfinite(buckets["min"])
        swapped = buckets["max_step"] < buckets["min_step"]
        single = ~some | ((buckets["min_step"] == buckets["max_step"]) & (buckets["min"] == buckets["max"]))
        values = np.stack([np.where(swapped, buckets["max"], buckets["min"]),
                           np.where(swapped, buckets["min"], buckets["max"])], axis=1)
        values[~some] = np.nan
        places = [np.stack([np.where(swapped, buckets[f"max_{what}"], buckets[f"min_{what}"]),
                            np.where(swapped, buckets[f"min_{what}"], buckets[f"max_{what}"])], axis=1)
                  for what in ("step", "time")]
        kept = np.stack([np.ones(len(buckets), bool), ~single], axis=1)
        return Series(self.key, self.statistic, places[0][kept], values[kept], places[1][kept])


_COARSEST = 4
"""Factor by which a curve may have fewer points than requested, if that avoids reading the records."""


def is_fine(buckets: Buckets, points: int) -> bool:
    """Return whether the buckets of a series do for a curve of so many points.

    A short series has few buckets: it would look coarser than an even shorter one.
    """
    return int(buckets["count"].sum()) > points and points <= _COARSEST * 2 * len(buckets)


def envelope_of_buckets(key: Key, statistic: str, buckets: Buckets, points: int) -> Envelope:
    """Return the envelope of a series from its buckets, with at most `points` points."""
    most = max(1, points // 2)
    if len(buckets) > most:
        buckets = merged_buckets(buckets, even_starts(buckets["count"], most))
    return Envelope(key, statistic, buckets)


def envelope_of_series(series: Series, points: int) -> Envelope:
    """Return the envelope of a series from all its points, with at most `points` points."""
    count = len(series)
    # As many points as can be drawn are drawn as they are.
    most = count if count <= points else max(1, points // 2)
    starts = np.unique(np.arange(most) * count // most) if count else np.empty(0, np.intp)
    buckets = buckets_of_points(series.steps, series.values, series.times, starts) if count else np.empty(0, BUCKET)
    return Envelope(series.key, series.statistic, buckets)


def envelope_of_columns(series: Series, points: int, *, log: bool = False) -> Envelope:
    """Return the envelope of a series in columns of equal width on the x axis, with at most `points` points.

    Args:
        series: The points; their times are the positions on the x axis, ascending.
        points: Maximum number of points.
        log: The columns have equal width on a logarithmic axis, which is linear near 0.
    """
    count = len(series)
    if count <= points:
        return envelope_of_series(series, points)
    places = np.arcsinh(series.times) if log else series.times
    columns, width = max(1, points // 2), places[-1] - places[0]
    if not width > 0:
        return envelope_of_series(series, points)
    column = np.minimum((places - places[0]) / width * columns, columns - 1).astype(np.int64)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    return Envelope(series.key, series.statistic, buckets_of_points(series.steps, series.values, series.times, starts))
