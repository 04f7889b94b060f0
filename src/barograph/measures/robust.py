"""The level, spread and slope of a noisy series, so taken that a few wild values do not move them.

Values that are not finite are left out everywhere: whether there are any is another question.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from barograph.measures.ratios import quotient

SIGMA_PER_MAD = 1.4826
"""Of normally distributed values the standard deviation is so many times the median absolute deviation."""


class Level(NamedTuple):
    """Where values lie and how far they scatter.

    Attributes:
        center: Their median; NaN where there are none.
        spread: Their median absolute deviation from it times `SIGMA_PER_MAD`: the standard deviation, if they are
            normally distributed. NaN where there are none.
    """

    center: float
    spread: float


def level(values: Sequence[float]) -> Level:
    """Return the level of the values.

    Up to half of them may be arbitrarily wrong without moving it out of the range of the others.

    Example:
        >>> level([1.0, 2.0, 3.0, 4.0, 1000.0])
        Level(center=3.0, spread=1.4826)

    Source: Rousseeuw & Croux, "Alternatives to the Median Absolute Deviation", 1993, section 1.
    """
    kept = _finite(values)
    if not kept:
        return Level(math.nan, math.nan)
    center = statistics.median(kept)
    return Level(center, SIGMA_PER_MAD * statistics.median([abs(value - center) for value in kept]))


def robust_z(value: float, history: Sequence[float], *, floor: float = 0.0) -> float:
    """Return how many spreads `value` lies above the level of `history`.

    Args:
        value: The one that is judged; not part of the history.
        history: What came before.
        floor: Least spread that is believed, in the unit of the values. A few equal values have a spread of 0, and
            beside that every change is infinite; give, say, a percentage of the level.

    Returns:
        A number without unit, below 0 if the value lies below. NaN if the value is, or there is no history. inf or
        −inf where the value is, or where spread and floor are 0 and the value is another.

    Example:
        >>> round(robust_z(10.0, [1.0, 2.0, 3.0]), 3)
        5.396
        >>> robust_z(1.1, [1.0, 1.0, 1.0], floor=0.1) < 1.01
        True
    """
    center, spread = level(history)
    if math.isnan(center):
        return math.nan
    return quotient(value - center, max(spread, floor))


def slope(values: Sequence[float], positions: Sequence[float] | None = None) -> float:
    """Return how much the values rise from one position to the next: the median over all pairs (Theil–Sen).

    Up to 29 % of the values may be arbitrarily wrong. Takes the square of their number in time and memory; a few
    hundred are fine.

    Args:
        values: The series.
        positions: Where each was taken, no two at the same place; 0, 1, 2 … if not given.

    Returns:
        Rise by unit of position; NaN where fewer than two values are finite.

    Raises:
        ValueError: There are not as many positions as values.

    Example:
        >>> slope([0.0, 2.0, 4.0, 100.0, 8.0])
        2.0

    Source: Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", 1968.
    """
    places = range(len(values)) if positions is None else positions
    points = [(place, value) for place, value in zip(places, values, strict=True) if math.isfinite(value)]
    rises = [
        (second[1] - first[1]) / (second[0] - first[0])
        for index, first in enumerate(points) for second in points[index + 1 :]
    ]
    return statistics.median(rises) if rises else math.nan


def extended(window: Sequence[float], value: float, size: int) -> list[float]:
    """Return the last `size` of the window's values and `value`: plain data that a rule keeps as its memory.

    Example:
        >>> extended([1.0, 2.0, 3.0], 4.0, 3)
        [2.0, 3.0, 4.0]
    """
    return [*window, value][-size:]


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
