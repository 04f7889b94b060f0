"""Numbers, shares, times and series as a person reads them in a table."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from barograph.model.summary import Summary

_BARS = "▁▂▃▄▅▆▇█"
_ZERO, _NONFINITE = "·", "!"
_LEAST_DECADES = 1.0
_MANY_FOLD = 100


def figure(value: float | None) -> str:
    """Return a number in three figures, small whole ones as they are; "" for None.

    Example:
        >>> figure(0.000123456), figure(1344.0), figure(1344.5), figure(math.nan), figure(None)
        ('0.000123', '1344', '1.34e+03', 'nan', '')
    """
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) < 100_000 and value.is_integer() else f"{value:.3g}"


def share(value: float | None) -> str:
    """Return a share as a percentage; never "100%" for less than all, nor "0%" for more than none.

    Example:
        >>> share(0.0521), share(0.99999), share(0.0), share(1e-9), share(None)
        ('5.2%', '99.9%', '0%', '0.1%', '')
    """
    if value is None or math.isnan(value):
        return ""
    percent = 100 * value
    return f"{min(99.9, max(0.1, percent)):.1f}%" if 0 < value < 1 else f"{percent:.0f}%"


def count(number: int, noun: str) -> str:
    """Return how many there are.

    Example:
        >>> count(1, "step"), count(12_400, "step")
        ('1 step', '12,400 steps')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(secs: float) -> str:
    """Return a time span in the unit that suits it.

    Example:
        >>> duration(0.0012), duration(2.5), duration(95), duration(7300), duration(200_000)
        ('1.2 ms', '2.5 s', '1 min 35 s', '2 h 1 min', '2 d 7 h')
    """
    if secs < 1:
        return f"{1000 * secs:.1f} ms"
    if secs < 60:
        return f"{secs:.1f} s"
    whole = round(secs)
    for size, unit, lesser, lesser_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // lesser} {lesser_unit}"
    return f"{whole} s"


def local_time(unix: float) -> str:
    """Return a moment by the wall clock of this place, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix))


def size(size_bytes: int) -> str:
    """Return a number of bytes in the unit that suits it.

    Example:
        >>> size(512), size(3_200_000)
        ('512 B', '3.1 MiB')
    """
    amount, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.0f} {units[0]}" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def curve(values: Sequence[float], width: int = 24) -> str:
    """Return a series as a line of bars from its least value to its greatest; several to a bar: their mean.

    Positive numbers that span more than two decades are shown as `sparkline` shows them: else one wild loss would
    flatten all the others.

    Args:
        values: What is not finite is shown as "!".
        width: Most bars.

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
    if low == high:
        low, high = low - 1.0, high + 1.0
    return "".join(_bar((value - low) / (high - low)) for value in means)


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Return a series of magnitudes as a line of bars, on a logarithmic scale; several to a bar: the greatest.

    The scale is the series' own, but at least one decade, so that small changes look small.

    Args:
        values: >= 0; zero is shown as "·", and what is not finite as "!".
        width: Most bars.

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


def thinned(steps: Sequence[int], values: Sequence[float], most: int = 200) -> tuple[list[int], list[float]]:
    """Return at most so many points of a series, evenly spread, the last one among them.

    Example:
        >>> thinned([0, 1, 2, 3, 4], [0.0, 0.1, 0.2, 0.3, 0.4], most=3)
        ([0, 2, 4], [0.0, 0.2, 0.4])
    """
    stride = max(1, math.ceil((len(steps) - 1) / max(1, most - 1)))
    picked = range((len(steps) - 1) % stride, len(steps), stride)
    return [steps[index] for index in picked], [values[index] for index in picked]


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


def summary_to_json(summary: Summary) -> dict[str, float]:
    """Return a Summary and what follows from it as JSON data, without the histogram."""
    return {name: getattr(summary, name) for name in _FIGURES}


_FIGURES = (
    "count", "nan", "posinf", "neginf", "zeros", "min", "max", "mean", "mean_abs", "std", "l2", "max_abs", "sparsity",
)
