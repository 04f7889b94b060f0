"""TensorFlow's message for an array, written the obvious way and read back; and what is no such message."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from barograph.errors import DamagedSource
from barograph.wire.tensor_proto import array_from_proto


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def part(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def shaped(*sizes: int) -> bytes:
    return part(2, b"".join(part(2, whole(1, size)) for size in sizes))


def read(message: bytes) -> object:
    return array_from_proto(memoryview(message))


@pytest.mark.parametrize(("number", "dtype"), [
    (1, "float32"), (2, "float64"), (3, "int32"), (4, "uint8"), (5, "int16"), (6, "int8"), (8, "complex64"),
    (9, "int64"), (10, "bool"), (14, "bfloat16"), (17, "uint16"), (18, "complex128"), (19, "float16"), (22, "uint32"),
    (23, "uint64"),
])
def test_the_bytes_of_every_type_are_kept(number: int, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    content = bytes([1, 0] * kind.itemsize * 3) if dtype != "bool" else b"\1\0\1\0\1\0"
    array = read(whole(1, number) + shaped(2, 3) + part(4, content))
    assert isinstance(array, np.ndarray)
    assert (array.dtype, array.shape, array.tobytes()) == (kind, (2, 3), content)


def test_a_number_has_no_axis() -> None:
    array = read(whole(1, 1) + shaped() + part(4, struct.pack("<f", 0.1)))
    assert isinstance(array, np.ndarray)
    assert (array.shape, array.dtype, float(array)) == ((), np.float32, float(np.float32(0.1)))


@pytest.mark.parametrize(("number", "field", "content", "expected"), [
    (1, 5, struct.pack("<2f", 1.5, -2.0), [1.5, -2.0]),
    (2, 6, struct.pack("<2d", 0.1, 0.2), [0.1, 0.2]),
    (3, 7, varint(7) + varint(-8), [7, -8]),
    (9, 10, varint(-1) + varint(1 << 62), [-1, 1 << 62]),
    (10, 11, b"\1\0", [True, False]),
    (19, 13, varint(0x3C00) + varint(0xC000), [1.0, -2.0]),
    (8, 9, struct.pack("<4f", 1, 2, 3, 4), [1 + 2j, 3 + 4j]),
    (23, 17, varint(5) + varint(6), [5, 6]),
])
def test_elements_may_stand_one_by_one(number: int, field: int, content: bytes, expected: list[object]) -> None:
    array = read(whole(1, number) + shaped(2) + part(field, content))
    assert isinstance(array, np.ndarray)
    assert array.tolist() == expected


def test_texts_are_a_list() -> None:
    assert read(shaped(2) + part(8, b"gain") + part(8, "größe".encode())) == ["gain", "größe"]


@pytest.mark.parametrize("message", [
    pytest.param(whole(1, 1) + shaped(1 << 40, 1 << 40) + part(4, b"\0" * 4), id="more elements than bytes"),
    pytest.param(whole(1, 1) + shaped(1 << 40) + part(5, struct.pack("<f", 1)), id="one element for a trillion"),
    pytest.param(whole(1, 1) + shaped(-1) + part(4, b""), id="a size below zero"),
    pytest.param(whole(1, 1) + shaped(1) + part(4, b"\0" * 3), id="half an element"),
    pytest.param(whole(1, 99) + shaped(1) + part(4, b"\0" * 4), id="an unknown type"),
    pytest.param(whole(1, 7) + shaped(3) + part(8, b"one"), id="too few texts"),
    pytest.param(whole(1, 7) + shaped(1) + part(8, b"\xff\xfe"), id="no text"),
    pytest.param(whole(1, 4) + shaped(1) + part(7, varint(300)), id="a number too great for its type"),
    pytest.param(b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\x7f", id="a field longer than its message"),
    pytest.param(b"\xff" * 11, id="a number without end"),
    pytest.param(b"\x08", id="a number that is not there"),
    pytest.param(b"\x0b", id="a group"),
    pytest.param(b"\x00\x01", id="field zero"),
])
def test_what_is_no_such_message_is_damage_and_takes_no_memory(message: bytes) -> None:
    with pytest.raises(DamagedSource):
        read(message)
