"""Protobuf's wire format, as far as event files need it: fields by number, without names.

There is no dependency on protobuf: the few messages of event files have not changed in ten years, and generated
code depends on the version of protobuf.
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
    """Encoding of a field."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: Number of the field.
        wire: Its encoding.
        value: A 64-bit unsigned integer for VARINT, otherwise the bytes.
    """

    number: int
    wire: Wire
    value: int | memoryview


def fields_of(message: memoryview) -> Iterator[Field]:
    """Yield the fields of a message in order.

    Raises:
        DamagedSource: The bytes are not a message.

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
            raise DamagedSource(f"a field has an unknown encoding ({wire})")
        if size > len(message) - at:
            raise DamagedSource(f"a field of {size} bytes is longer than its message")
        yield Field(number, Wire(wire), message[at : at + size])
        at += size


def bytes_of(field: Field) -> memoryview:
    """Return the bytes of a field: a string, a message or packed numbers.

    Raises:
        DamagedSource: The field has another encoding.
    """
    if field.wire is not Wire.BYTES or isinstance(field.value, int):
        raise DamagedSource(f"field {field.number} does not hold bytes")
    return field.value


def text_of(field: Field) -> str:
    """Return the string of a field.

    Raises:
        DamagedSource: It is not a string.
    """
    try:
        return str(bytes_of(field), "utf-8")
    except UnicodeDecodeError:
        raise DamagedSource(f"field {field.number} is not a string") from None


def whole_of(field: Field) -> int:
    """Return the signed integer of a field.

    Raises:
        DamagedSource: It is not an integer.
    """
    if not isinstance(field.value, int):
        raise DamagedSource(f"field {field.number} is not an integer")
    return _signed(field.value)


def real_of(field: Field) -> float:
    """Return the double or float of a field.

    Raises:
        DamagedSource: It is neither.
    """
    if isinstance(field.value, int) or field.wire is Wire.BYTES:
        raise DamagedSource(f"field {field.number} is not a floating-point number")
    unpacked: float = (_DOUBLE if field.wire is Wire.FIXED64 else _FLOAT).unpack(field.value)[0]
    return unpacked


def wholes_of(field: Field) -> list[int]:
    """Return the integers of a field, packed or not.

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
    """Return the floating-point numbers of a field, packed or not.

    Args:
        field: The field.
        dtype: "<f4" or "<f8".

    Raises:
        DamagedSource: It holds something else.
    """
    kind = np.dtype(dtype)
    if isinstance(field.value, int) or len(field.value) % kind.itemsize:
        raise DamagedSource(f"field {field.number} does not hold numbers of {kind.itemsize} bytes")
    return np.frombuffer(field.value, kind)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a varint and the offset after it."""
    value = 0
    for place in range(_MOST_VARINT_BYTES):
        if at + place >= len(data):
            raise DamagedSource("a number is longer than its message")
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & _WHOLE_64, at + place + 1
    raise DamagedSource("a number is longer than ten bytes")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
