"""Formats series as lines of bars."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
_ZERO, _NONFINITE = "·", "!"
_LEAST_DECADES = 1.0
_MANY_FOLD = 100


def curve(values: Sequence[float], width: int = 24) -> str:
    """Return a series as a line of bars from its minimum to its maximum; a bar shows the mean of its values.

    Positive numbers that span more than two decades are shown as by `sparkline`, because one extreme loss would flatten
    all others.

    Args:
        values: Non-finite values are shown as "!".
        width: Maximum number of bars.

    Example:
        >>> curve([2.0, 1.0, 0.5, 0.0, math.nan])
        '█▅▃▁!'
        >>> curve([2.0, 2e6, 2e3, 1.0])
        '▁█▅▁'
    """
    known = [value for value in values if math.isfinite(value)]
    if known and min(known) > 0 and max(known) / min(known) > _MANY_FOLD:
        return sparkline(values, width)
    means = [_mean(values[start:stop]) for start, stop in _parts(len(values), width)]
    finite = [value for value in means if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    return "".join(_bar(_share(value, low, high)) for value in means)


def _share(value: float, low: float, high: float) -> float:
    """Return the relative position of a value between two others, from 0 to 1; 0.5 if these are equal.

    Computed with halves, because the difference may overflow.
    """
    half = high / 2 - low / 2
    return (value / 2 - low / 2) / half if half > 0 else 0.5 + 0.0 * value


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Return a series of magnitudes as a line of bars on a logarithmic scale; a bar shows the maximum of its values.

    The scale covers the range of the series, but at least one decade, so that small changes look small.

    Args:
        values: >= 0; zero is shown as "·", non-finite values as "!".
        width: Maximum number of bars.

    Example:
        >>> sparkline([0.01, 0.1, 1.0, 10.0, 0.0, math.nan])
        '▁▃▆█·!'
        >>> sparkline([0.5, 0.51, 0.49])
        '▅▅▅'
    """
    greatest = [_greatest(values[start:stop]) for start, stop in _parts(len(values), width)]
    logs = [math.log10(value) for value in greatest if 0 < value < math.inf]
    low, high = (min(logs), max(logs)) if logs else (0.0, 0.0)
    if high - low < _LEAST_DECADES:
        # The middle of the scale is the middle of a bar, so that noise does not flicker between two.
        middle = (low + high) / 2
        low, high = middle - _LEAST_DECADES * 4 / 7, middle + _LEAST_DECADES * 3 / 7
    bars = [_ZERO if value == 0 else _bar((_log(value) - low) / (high - low)) for value in greatest]
    return "".join(bars)


def _log(value: float) -> float:
    return math.log10(value) if math.isfinite(value) else value


def _parts(length: int, most: int) -> list[tuple[int, int]]:
    parts = min(length, most)
    return [(length * part // parts, length * (part + 1) // parts) for part in range(parts)]


def _greatest(values: Sequence[float]) -> float:
    return math.nan if any(not math.isfinite(value) for value in values) else max(values)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _bar(height: float) -> str:
    """Return the bar for a height from 0 to 1."""
    if not math.isfinite(height):
        return _NONFINITE
    top = len(_BARS) - 1
    return _BARS[max(0, min(top, round(height * top)))]
