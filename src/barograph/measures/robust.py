"""Level, spread and slope of a noisy series, robust to outliers.

Nonfinite values are ignored everywhere.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

SIGMA_PER_MAD = 1.4826
"""Ratio of the standard deviation to the median absolute deviation of normally distributed values."""


class Level(NamedTuple):
    """Level and spread of values.

    Attributes:
        center: Median; NaN without values.
        spread: Median absolute deviation times `SIGMA_PER_MAD`: the standard deviation of normally distributed
            values. NaN without values.
    """

    center: float
    spread: float


def level(values: Sequence[float]) -> Level:
    """Return the level of the values.

    Up to half of them may be outliers without moving it out of the range of the others.

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
    """Return how many spreads `value` is above the level of `history`.

    Args:
        value: Value to test; not part of the history.
        history: Earlier values.
        floor: Lower limit of the spread, in the unit of the values. A few equal values have a spread of 0, and
            every change would be infinite; pass, for example, a percentage of the level.

    Returns:
        A number without unit, negative if the value is below. NaN if the value is, or without history. inf or
        −inf if the value is, or if spread and floor are 0 and the value differs.

    Example:
        >>> round(robust_z(10.0, [1.0, 2.0, 3.0]), 3)
        5.396
        >>> robust_z(1.1, [1.0, 1.0, 1.0], floor=0.1) < 1.01
        True
    """
    center, spread = level(history)
    if math.isnan(center):
        return math.nan
    return _quotient(value - center, max(spread, floor))


def slope(values: Sequence[float], positions: Sequence[float] | None = None) -> float:
    """Return the slope of the values: the median over all pairs (Theil–Sen).

    Up to 29% of the values may be outliers. Time and memory grow with the square of their number; a few
    hundred are fine.

    Args:
        values: The series.
        positions: Position of each value, all different; default 0, 1, 2 …

    Returns:
        Slope per unit of position; NaN if fewer than two values are finite.

    Raises:
        ValueError: The numbers of positions and values differ.

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
    """Return the last `size` values of the window with `value` appended, as plain data for a rule's memory.

    Example:
        >>> extended([1.0, 2.0, 3.0], 4.0, 3)
        [2.0, 3.0, 4.0]
    """
    return [*window, value][-size:]


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _quotient(numerator: float, denominator: float) -> float:
    """Return numerator / denominator; over 0 it is 0.0 for 0, else inf with the numerator's sign."""
    if denominator != 0:
        return numerator / denominator
    return numerator * math.inf if numerator else 0.0
