"""Formats numbers, shares, times and sizes for people, the same way in every command and on every page."""

from __future__ import annotations

import math
import time

from barograph.model.significant import significant


def figure(value: float | None) -> str:
    """Return a number with three significant digits, integers below 100,000 in full; "" for None.

    Example:
        >>> figure(0.000123456), figure(1344.0), figure(1344.5), figure(math.nan), figure(None)
        ('0.000123', '1344', '1,340', 'nan', '')
    """
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) < 100_000 and value.is_integer() else significant(value)


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
    """Return a number with its noun.

    Example:
        >>> count(1, "step"), count(12_400, "step")
        ('1 step', '12,400 steps')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(secs: float) -> str:
    """Return a time span in the unit that suits it.

    Example:
        >>> duration(0.0012), duration(0.255), duration(2.5), duration(95), duration(7300), duration(200_000)
        ('1.2 ms', '255 ms', '2.5 s', '1 min 35 s', '2 h 1 min', '2 d 7 h')
    """
    if secs < 1:
        return f"{1000 * secs:.{0 if secs >= 0.1 else 1}f} ms"
    if secs < 60:
        return f"{secs:.1f} s"
    whole = round(secs)
    for size, unit, lesser, lesser_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // lesser} {lesser_unit}"
    return f"{whole} s"


def local_time(unix: float) -> str:
    """Return a time as local time, to the second."""
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
