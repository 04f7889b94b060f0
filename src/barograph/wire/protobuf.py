"""Protobuf's wire format, as far as event files need it: fields by number, and nothing of what they are called.

A reader of these hundred lines, and no dependency on protobuf: the few messages of an event file have not changed in
ten years, and code that protobuf generates is tied to its version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from barograph.errors import DamagedSource

_MOST_VARINT_BYTES = 10
_WHOLE_64 = (1 << 64) - 1
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")


class Wire(IntEnum):
    """How a field is written."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: Which field.
        wire: How it is written.
        value: A whole number of 64 bits without sign where that is VARINT; else the bytes.
    """

    number: int
    wire: Wire
    value: int | memoryview


def fields_of(message: memoryview) -> Iterator[Field]:
    """Yield the fields of a message, in the order in which they stand.

    Raises:
        DamagedSource: The bytes are no message.

    Example:
        >>> [tuple(field) for field in fields_of(memoryview(bytes([8, 150, 1])))]
        [(1, <Wire.VARINT: 0>, 150)]
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise DamagedSource("a field has the number 0")
        if wire == Wire.VARINT:
            value, at = _varint(message, at)
            yield Field(number, Wire.VARINT, value)
            continue
        if wire == Wire.BYTES:
            size, at = _varint(message, at)
        elif wire in (Wire.FIXED64, Wire.FIXED32):
            size = 8 if wire == Wire.FIXED64 else 4
        else:
            raise DamagedSource(f"a field is written in a way ({wire}) that nobody uses")
        if size > len(message) - at:
            raise DamagedSource(f"a field of {size} bytes does not fit in its message")
        yield Field(number, Wire(wire), message[at : at + size])
        at += size


def bytes_of(field: Field) -> memoryview:
    """Return the bytes of a field that holds a text, a message or packed numbers.

    Raises:
        DamagedSource: It is written otherwise.
    """
    if field.wire is not Wire.BYTES or isinstance(field.value, int):
        raise DamagedSource(f"field {field.number} holds no bytes")
    return field.value


def text_of(field: Field) -> str:
    """Return the text of a field.

    Raises:
        DamagedSource: It is no text.
    """
    try:
        return str(bytes_of(field), "utf-8")
    except UnicodeDecodeError:
        raise DamagedSource(f"field {field.number} is no text") from None


def whole_of(field: Field) -> int:
    """Return the whole number of a field, with its sign.

    Raises:
        DamagedSource: It holds none.
    """
    if not isinstance(field.value, int):
        raise DamagedSource(f"field {field.number} holds no whole number")
    return _signed(field.value)


def real_of(field: Field) -> float:
    """Return the number of a field that holds a double or a float.

    Raises:
        DamagedSource: It holds neither.
    """
    if isinstance(field.value, int) or field.wire is Wire.BYTES:
        raise DamagedSource(f"field {field.number} holds no floating number")
    unpacked: float = (_DOUBLE if field.wire is Wire.FIXED64 else _FLOAT).unpack(field.value)[0]
    return unpacked


def wholes_of(field: Field) -> list[int]:
    """Return the whole numbers of a field that may be packed.

    Raises:
        DamagedSource: It holds something else.
    """
    if field.wire is not Wire.BYTES:
        return [whole_of(field)]
    packed, found, at = bytes_of(field), [], 0
    while at < len(packed):
        value, at = _varint(packed, at)
        found.append(_signed(value))
    return found


def reals_of(field: Field, dtype: str) -> NDArray[np.floating]:
    """Return the floating numbers of a field that may be packed.

    Args:
        field: Which.
        dtype: "<f4" or "<f8", as they are written.

    Raises:
        DamagedSource: It holds something else.
    """
    kind = np.dtype(dtype)
    if isinstance(field.value, int) or len(field.value) % kind.itemsize:
        raise DamagedSource(f"field {field.number} holds no numbers of {kind.itemsize} bytes")
    return np.frombuffer(field.value, kind)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number that is written in groups of seven bits, and where what follows begins."""
    value = 0
    for place in range(_MOST_VARINT_BYTES):
        if at + place >= len(data):
            raise DamagedSource("a number goes on beyond the end of its message")
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & _WHOLE_64, at + place + 1
    raise DamagedSource("a number is longer than ten bytes")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
