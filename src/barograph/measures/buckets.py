"""Buckets of a series: count, minimum, maximum and mean of consecutive points.

Consecutive buckets merge into larger ones, so that a curve of any length can be drawn and summarized
without its points. NaN and infinities are counted separately and do not affect the other statistics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BUCKET = np.dtype([
    ("count", "<i8"), ("nan", "<i8"), ("posinf", "<i8"), ("neginf", "<i8"),
    ("first_step", "<i8"), ("last_step", "<i8"), ("first_time", "<f8"), ("last_time", "<f8"),
    ("min", "<f8"), ("min_step", "<i8"), ("min_time", "<f8"), ("max", "<f8"), ("max_step", "<i8"), ("max_time", "<f8"),
    ("mean", "<f8"), ("squares", "<f8"), ("last", "<f8"),
])
"""Statistics of consecutive points: counts by kind; smallest and largest step; time of the first and the last point.
Over
the finite ones: minimum and maximum, each with the first step and time at which it occurs, the mean, and the sum of
squared distances from it. `last` is the number at the largest step, the last of several. Without a finite point they
are inf, −inf, 0 and 0, with the step and time of the first point."""

Buckets = NDArray[Any]
"""An array of `BUCKET`, in the order of the points."""


def buckets_of_points(
    steps: NDArray[np.int64], values: NDArray[np.float64], times: NDArray[np.float64], starts: NDArray[np.intp]
) -> Buckets:
    """Return points in buckets.

    Args:
        steps, values, times: The points; shape (n,).
        starts: Index of the first point of each bucket: ascending, the first 0, all < n.

    Example:
        >>> points = np.arange(4), np.array([3.0, 1.0, np.nan, 5.0]), np.zeros(4)
        >>> found = buckets_of_points(*points, np.array([0, 2]))
        >>> found["min"].tolist(), found["nan"].tolist(), found["last"].tolist()
        ([1.0, 5.0], [0, 1], [1.0, 5.0])
    """
    count = len(starts)
    found = np.zeros(count, BUCKET)
    if not count:
        return found
    lengths = np.diff(np.append(starts, len(values)))
    found["count"] = lengths
    finite = np.isfinite(values)
    if not finite.all():
        for name, at in (("nan", np.isnan(values)), ("posinf", values == np.inf), ("neginf", values == -np.inf)):
            found[name] = np.add.reduceat(at.astype(np.int64), starts)
    ends = starts + lengths - 1
    found["first_step"], found["last_step"] = np.minimum.reduceat(steps, starts), np.maximum.reduceat(steps, starts)
    found["first_time"], found["last_time"] = times[starts], times[ends]
    _place(found, "min", np.where(finite, values, np.inf), steps, times, starts, lengths)
    _place(found, "max", np.where(finite, values, -np.inf), steps, times, starts, lengths)
    numbers = np.where(finite, values, 0.0)
    counted = np.maximum(_finite(found), 1)
    with np.errstate(over="ignore"):
        found["mean"] = np.add.reduceat(numbers, starts) / counted
        _without_overflow(found, numbers, counted, starts)
        distances = np.where(finite, values - np.repeat(found["mean"], lengths), 0.0)
        found["squares"] = np.add.reduceat(distances * distances, starts)
    found["last"] = values[_last_at(steps, found["last_step"], starts, lengths)]
    return found


def merged_buckets(buckets: Buckets, starts: NDArray[np.intp]) -> Buckets:
    """Return consecutive buckets merged into larger ones.

    Args:
        buckets: Buckets in order.
        starts: Index of the first bucket of each larger one: ascending, the first 0, all < len(buckets).
    """
    found = np.zeros(len(starts), BUCKET)
    if not len(starts):
        return found
    lengths = np.diff(np.append(starts, len(buckets)))
    for name in ("count", "nan", "posinf", "neginf"):
        found[name] = np.add.reduceat(buckets[name], starts)
    found["first_step"] = np.minimum.reduceat(buckets["first_step"], starts)
    found["last_step"] = np.maximum.reduceat(buckets["last_step"], starts)
    found["first_time"], found["last_time"] = buckets["first_time"][starts], buckets["last_time"][starts + lengths - 1]
    for name in ("min", "max"):
        _place(found, name, buckets[name], buckets[f"{name}_step"], buckets[f"{name}_time"], starts, lengths)
    parts, counted = _finite(buckets), np.maximum(_finite(found), 1)
    shares = parts / np.repeat(counted, lengths)
    with np.errstate(over="ignore", invalid="ignore"):
        found["mean"] = np.add.reduceat(buckets["mean"] * shares, starts)
        distances = np.where(parts > 0, buckets["mean"] - np.repeat(found["mean"], lengths), 0.0)
        found["squares"] = np.add.reduceat(buckets["squares"] + parts * distances * distances, starts)
    found["last"] = buckets["last"][_last_at(buckets["last_step"], found["last_step"], starts, lengths)]
    return found


def even_starts(counts: NDArray[np.int64], most: int) -> NDArray[np.intp]:
    """Return the starts for merging buckets into at most `most` ones with about equal numbers of points.

    Args:
        counts: Points of each bucket.
        most: Number of merged buckets, at least 1.

    Example:
        >>> even_starts(np.array([1, 1, 1, 1, 4]), 2).tolist()
        [0, 4]
    """
    before = np.cumsum(counts) - counts
    total = int(counts.sum())
    group = before * most // max(total, 1)
    return np.flatnonzero(np.diff(group, prepend=-1))


def sensible_buckets(buckets: Buckets) -> bool:
    """Return whether each bucket is consistent, as far as can be checked.

    Example:
        >>> one = buckets_of_points(np.arange(2), np.array([1.0, 3.0]), np.zeros(2), np.array([0]))
        >>> sensible_buckets(one)
        True
        >>> one["nan"] = 3
        >>> sensible_buckets(one)
        False
    """
    counts = np.stack([buckets[name] for name in ("nan", "posinf", "neginf")])
    numbers = np.stack([buckets[name] for name in ("min", "max", "mean", "squares")])
    return bool((buckets["count"] >= 1).all() and (counts >= 0).all() and (counts <= buckets["count"]).all()
                and (_finite(buckets) >= 0).all() and (buckets["squares"] >= 0).all()
                and not np.isnan(numbers).any())


def _finite(buckets: Buckets) -> NDArray[np.int64]:
    finite: NDArray[np.int64] = buckets["count"] - buckets["nan"] - buckets["posinf"] - buckets["neginf"]
    return finite


def _place(
    found: Buckets, name: str, values: NDArray[np.float64], steps: NDArray[np.int64], times: NDArray[np.float64],
    starts: NDArray[np.intp], lengths: NDArray[np.intp],
) -> None:
    """Fill in the minimum or the maximum of each bucket, and its first step and time."""
    extreme = (np.minimum if name == "min" else np.maximum).reduceat(values, starts)
    at = np.flatnonzero(values == np.repeat(extreme, lengths))
    first = at[np.searchsorted(at, starts)]
    found[name], found[f"{name}_step"], found[f"{name}_time"] = extreme, steps[first], times[first]


def _last_at(
    steps: NDArray[np.int64], last_steps: NDArray[np.int64], starts: NDArray[np.intp], lengths: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the index of each bucket's largest step, the last of several."""
    at = np.flatnonzero(steps == np.repeat(last_steps, lengths))
    return at[np.searchsorted(at, starts + lengths, side="left") - 1]


def _without_overflow(
    found: Buckets, numbers: NDArray[np.float64], counted: NDArray[np.int64], starts: NDArray[np.intp]
) -> None:
    """Recompute the means whose sums overflowed."""
    if not np.isfinite(found["mean"]).all():
        lengths = np.diff(np.append(starts, len(numbers)))
        found["mean"] = np.add.reduceat(numbers / np.repeat(counted, lengths), starts)
