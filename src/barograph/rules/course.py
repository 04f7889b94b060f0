"""Trend of a noisy series: medians of a few values each, and whether they fall by more than chance.

It does not know what the series is, nor what is a fault.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any, NamedTuple

from barograph.measures.robust import level

_LONGEST = 120
"""Most points kept. Beyond that pairs are merged: a long run is seen in coarser points, from start to end."""
_NOISE_OF_A_MEDIAN = 1.2533
"""Standard error of the median of normally distributed values, relative to that of their mean: sqrt(pi / 2)."""
_LEAST_FOR_SCATTER = 6


class Point(NamedTuple):
    """A median of some values, or the mean of several such medians.

    Attributes:
        first, last: Steps of the first and the last value in it.
        value: The median.
        noise: Its standard error, from the scatter of its values; 0 for a single value.
    """

    first: int
    last: int
    value: float
    noise: float

    @property
    def middle(self) -> float:
        """Step in the middle."""
        return (self.first + self.last) / 2


class Fall(NamedTuple):
    """Fall of a series from the first third of its course to the last.

    Attributes:
        since: First step of the course.
        before, now: Levels of the first and last third.
        steps: Between their middles.
        noise: Standard error of `before` − `now`.
    """

    since: int
    before: float
    now: float
    steps: float
    noise: float


def point_of(first: int, last: int, values: Sequence[float]) -> Point:
    """Return the point of these values.

    Example:
        >>> point_of(0, 2, [1.0, 3.0, 2.0]).value
        2.0
    """
    center, spread = level(values)
    return Point(first, last, center, _NOISE_OF_A_MEDIAN * spread / math.sqrt(len(values)))


def extend(memory: dict[str, Any], point: Point) -> None:
    """Add a point to the course in `memory`, and merge points if there are too many."""
    course: list[list[float]] = memory.setdefault("course", [])
    waiting: list[list[float]] = memory.setdefault("waiting", [])
    waiting.append(list(point))
    if len(waiting) < memory.setdefault("stride", 1):
        return
    course.append(_merged(waiting))
    waiting.clear()
    if len(course) >= _LONGEST:
        course[:] = [_merged(course[at : at + 2]) for at in range(0, len(course), 2)]
        memory["stride"] *= 2


def course_of(memory: dict[str, Any], *, start: int = 0) -> list[Point]:
    """Return the points of the course from a step on, in order, all of equal weight."""
    return [Point(int(first), int(last), value, noise)
            for first, last, value, noise in memory.get("course", ()) if first >= start]


def course_since(course: list[Point], start: int) -> list[Point]:
    """Return the points of a course from a step on."""
    return course if not course or course[0].first >= start else [point for point in course if point.first >= start]


def scatter(values: Sequence[float]) -> float:
    """Return the scatter of a series about its trend, from the differences of neighbors.

    0 for fewer than six values, in which trend and scatter cannot be distinguished.

    Example:
        >>> scatter([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        0.0
    """
    differences = [after - before for before, after in pairwise(values)]
    return level(differences).spread / math.sqrt(2) if len(values) >= _LEAST_FOR_SCATTER else 0.0


def noise_of(course: Sequence[Point]) -> float:
    """Return the standard error of one point: the larger of that within points and that between points."""
    within = median([point.noise for point in course]) if course else 0.0
    return max(within, scatter([point.value for point in course]))


def fall_of(course: Sequence[Point], *, noise: float) -> Fall | None:
    """Return the fall of the series over its course; None for fewer than three points.

    Thirds have nearly the power of a straight line fitted to all points, and the first few points do not skew them.

    Args:
        course: Points of equal weight.
        noise: Standard error of one point.

    Example:
        >>> course = [Point(step, step, 2.0 - step, 0.0) for step in range(3)]
        >>> fall_of(course, noise=0.0)
        Fall(since=0, before=2.0, now=0.0, steps=2.0, noise=0.0)

    Source: Bartlett, "Fitting a straight line when both variables are subject to error", 1949, for the thirds.
    """
    third = len(course) // 3
    if not third:
        return None
    early, late = course[:third], course[-third:]
    return Fall(
        course[0].first, median([point.value for point in early]), median([point.value for point in late]),
        fmean([point.middle for point in late]) - fmean([point.middle for point in early]),
        noise * math.sqrt(2 / third) * (_NOISE_OF_A_MEDIAN if third > 2 else 1.0),
    )


def deepest_fall(course: Sequence[Point], *, noise: float, unit: float) -> float:
    """Return the largest fall of the series below its start; 0 for no points.

    Args:
        course: Points of equal weight.
        noise: Standard error of one point.
        unit: Fall that matters. If the noise of one point is more than a quarter of it, means over enough points to
            reduce it to a quarter are compared: the least of many noisy points is always low.
    """
    if not course:
        return 0.0
    # Limited before squaring: relative to a loss that started near zero, noise is huge.
    quarters = min(4 * noise / unit, _LONGEST) if unit > 0 else 1.0
    over = max(1, min(math.ceil(quarters**2), len(course) // 2))
    values = [point.value for point in course]
    means = [fmean(values[at : at + over]) for at in range(len(values) - over + 1)]
    return means[0] - min(means)


def _merged(points: Sequence[Sequence[float]]) -> list[float]:
    noise = math.sqrt(sum(point[3] ** 2 for point in points)) / len(points)
    return [points[0][0], points[-1][1], fmean(point[2] for point in points), noise]
