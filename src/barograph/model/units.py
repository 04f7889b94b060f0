"""Times and sizes as people write them: "30s", "10m", "2GB", "512 MiB"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from barograph.errors import SettingsError, UnknownName, nearest

_TIMES: Mapping[str, float] = {
    "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0,
    "seconds": 1.0, "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0,
    "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0,
}
_SIZES: Mapping[str, int] = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}
_SHORT = ("ms", "s", "m", "h", "d", "B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")
_WRITTEN = re.compile(r"\s*(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>.*?)\s*")


def seconds_from(name: str, value: object) -> float:
    """Return a time in seconds.

    Args:
        name: Name of the setting, for messages.
        value: A number of seconds, or a string with a unit.

    Raises:
        UnknownName: There is no such unit of time.
        SettingsError: The value is not a time, or is negative or infinite.

    Example:
        >>> seconds_from("digest", "15m"), seconds_from("timeout", 2)
        (900.0, 2.0)
    """
    return _measured(name, value, _TIMES, 'a time: a number of seconds, or as in "30s", "10m", "1.5h"')


def bytes_from(name: str, value: object) -> int:
    """Return a size in bytes.

    Args:
        name: Name of the setting, for messages.
        value: An integer number of bytes, or a string with a unit.

    Raises:
        UnknownName: There is no such unit of size.
        SettingsError: The value is not a size, or is negative or not an integer number of bytes.

    Example:
        >>> bytes_from("max_bytes", "2GB"), bytes_from("queue_bytes", "1.5 KiB")
        (2000000000, 1536)
    """
    what = 'a size: an integer number of bytes, or as in "512MiB", "2GB"'
    if isinstance(value, float):
        raise SettingsError(f"{name} is {value!r}; it must be {what}.")
    if isinstance(value, int) and not isinstance(value, bool):
        return value  # whole, however large
    found = _measured(name, value, _SIZES, what)
    if found != int(found):
        raise SettingsError(f"{name} is {value!r}, which is not an integer number of bytes.")
    return int(found)


def _measured(name: str, value: object, units: Mapping[str, float], what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise SettingsError(f"{name} is {value!r}; it must be {what}.")
    number = _scaled(name, value, units, what) if isinstance(value, str) else float(value)
    if not 0 <= number < math.inf:
        raise SettingsError(f"{name} is {value!r}; it must be at least 0 and finite.")
    return number


def _scaled(name: str, text: str, units: Mapping[str, float], what: str) -> float:
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise SettingsError(f'{name} is "{text}"; it must be {what}.')
    unit = match["unit"]
    there = ", ".join(item for item in _SHORT if item in units)
    if not unit:
        raise SettingsError(f'{name} is "{text}", without a unit. Add one: {there}.')
    if unit not in units:
        close = nearest(unit, units)
        hint = close if close.startswith("Did you") else f"There are: {there}."
        raise UnknownName(f'{name} is "{text}": "{unit}" is not a unit for it. {hint}')
    return float(match["number"]) * units[unit]
