"""Parses messages of Weights & Biases logs by field number, as far as needed.

Source: `wandb_internal.proto` of wandb, whose numbers have been the same since the file was first written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from barograph.errors import DamagedSource
from barograph.ingest.trackers.foreign import time_from
from barograph.wire.protobuf import Field, bytes_of, fields_of, real_of, text_of, whole_of

HISTORY, SUMMARY, CONFIG, STATS, ARTIFACT, RUN, EXIT, USE_ARTIFACT, ENVIRONMENT = 2, 3, 5, 7, 8, 17, 18, 25, 26
_KEY, _NESTED, _JSON = 1, 2, 16
_BOOLEAN, _INTEGER, _NUMBER, _TEXT, _OLD_JSON = 4, 5, 6, 7, 8
DEEPEST = 20
"""Maximum nesting of dictionaries and lists."""
_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Item(NamedTuple):
    """A named value.

    Attributes:
        path: Its name, or the path of a nested value.
        value: JSON data.
    """

    path: tuple[str, ...]
    value: Any


def kind_and_body(record: memoryview) -> tuple[int, memoryview]:
    """Return the type of a record and its message; type 0 for all unneeded ones.

    Raises:
        DamagedSource: It is not a message.
    """
    for part in fields_of(record):
        if part.number in (HISTORY, SUMMARY, CONFIG, STATS, ARTIFACT, RUN, EXIT, USE_ARTIFACT, ENVIRONMENT):
            return part.number, bytes_of(part)
    return 0, record


def items_in(message: memoryview, number: int) -> Iterator[Item]:
    """Yield the items of a field; those without a value have None.

    Raises:
        DamagedSource: It is not such a message.
    """
    for part in fields_of(message):
        if part.number == number:
            yield _item(bytes_of(part))


def texts_in(message: memoryview) -> dict[int, list[str]]:
    """Return the strings of a message by field number; other fields are skipped."""
    found: dict[int, list[str]] = {}
    for part in fields_of(message):
        if not isinstance(part.value, int):
            found.setdefault(part.number, []).append(str(bytes(part.value), "utf-8", "replace"))
    return found


def message_in(message: memoryview, number: int) -> memoryview:
    """Return the message in a field; an empty one if missing."""
    return next((bytes_of(part) for part in fields_of(message) if part.number == number), memoryview(b""))


def whole_in(message: memoryview, number: int) -> int:
    """Return the integer in a field; 0 if missing, as in protobuf."""
    return next((whole_of(part) for part in fields_of(message) if part.number == number), 0)


def time_in(message: memoryview, number: int) -> float:
    """Return the time in a field in seconds since 1970 UTC; 0.0 if missing."""
    stamp = message_in(message, number)
    return time_from(whole_in(stamp, 1) + whole_in(stamp, 2) / 1e9)


def real_from(number: int | float) -> float:
    """Return a number as a double; an integer too large becomes infinite.

    Example:
        >>> real_from(3), real_from(-(10**400))
        (3.0, -inf)
    """
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _item(message: memoryview) -> Item:
    key, nested, value = "", [], None
    for part in fields_of(message):
        if part.number == _KEY:
            key = text_of(part)
        elif part.number == _NESTED:
            nested.append(text_of(part))
        else:
            value = _value(part)
    path = tuple(nested) or (key,)
    if len(path) > DEEPEST or _is_deeper(value, DEEPEST):
        raise DamagedSource(f'"{path[0][:60]}" nests more than {DEEPEST} levels')
    return Item(path, value)


def _is_deeper(value: Any, most: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    below = value.values() if isinstance(value, dict) else value
    return most == 0 or any(_is_deeper(item, most - 1) for item in below)


def _value(part: Field) -> Any:
    if part.number in (_JSON, _OLD_JSON):
        try:
            value = json.loads(text_of(part))
        except (ValueError, RecursionError):
            raise DamagedSource("a value is not JSON") from None
        return _NUMBERS.get(value, value) if isinstance(value, str) else value
    if part.number == _NUMBER:
        return real_of(part)
    if part.number == _INTEGER:
        number = whole_of(part) & ((1 << 64) - 1)
        return (number >> 1) ^ -(number & 1)
    if part.number == _BOOLEAN:
        return bool(whole_of(part))
    return text_of(part) if part.number == _TEXT else None
