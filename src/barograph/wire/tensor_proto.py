"""Conversion of TensorProto, TensorFlow's message for an array."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from barograph.errors import DamagedSource
from barograph.wire.protobuf import Field, bytes_of, fields_of, reals_of, text_of, whole_of, wholes_of

Texts = list[str]
"""An array of strings; smdebug writes only one-dimensional ones."""

_STRING = 7
_TYPES: Mapping[int, np.dtype[Any]] = {
    number: np.dtype(kind)
    for number, kind in (
        (1, np.float32), (2, np.float64), (3, np.int32), (4, np.uint8), (5, np.int16), (6, np.int8),
        (8, np.complex64), (9, np.int64), (10, np.bool_), (11, np.int8), (12, np.uint8), (13, np.int32),
        (14, ml_dtypes.bfloat16), (15, np.int16), (16, np.uint16), (17, np.uint16), (18, np.complex128),
        (19, np.float16), (22, np.uint32), (23, np.uint64),
    )
}
"""TensorFlow's numbers of element types; quantized ones are read as integers."""

_DTYPE, _SHAPE, _CONTENT, _TEXTS = 1, 2, 4, 8
_HALVES = 13
_COMPLEX = (9, 12)
_LISTS: Mapping[int, Callable[[Field], Any]] = {
    5: lambda field: reals_of(field, "<f4"),
    6: lambda field: reals_of(field, "<f8"),
    7: wholes_of,
    9: lambda field: reals_of(field, "<f4"),
    10: wholes_of,
    11: wholes_of,
    12: lambda field: reals_of(field, "<f8"),
    _HALVES: wholes_of,
    16: wholes_of,
    17: wholes_of,
}
"""Fields with individual elements, used if there are no raw bytes."""


def array_from_proto(message: memoryview) -> NDArray[Any] | Texts:
    """Return the array or the strings of a TensorProto.

    The result is never larger than the message: a shape with more elements than the message has is damage.

    Raises:
        DamagedSource: The bytes are not such a message, or its parts are inconsistent.
    """
    number, content = 0, memoryview(b"")
    shape: tuple[int, ...] = ()
    texts: Texts = []
    lists: dict[int, list[Any]] = {}
    for field in fields_of(message):
        if field.number == _DTYPE:
            number = whole_of(field)
        elif field.number == _SHAPE:
            shape = _shape(bytes_of(field))
        elif field.number == _CONTENT:
            content = bytes_of(field)
        elif field.number == _TEXTS:
            texts.append(text_of(field))
        elif field.number in _LISTS:
            lists.setdefault(field.number, []).extend(_LISTS[field.number](field))
    if texts or number == _STRING:
        _check_count(len(texts), shape)
        return texts
    dtype = _TYPES.get(number)
    if dtype is None:
        raise DamagedSource(f"its elements have an unknown type ({number})")
    if len(content) or not lists:
        if len(content) % dtype.itemsize:
            raise DamagedSource(f"{len(content)} bytes are not a multiple of the size of {dtype}")
        _check_count(len(content) // dtype.itemsize, shape)
        return np.frombuffer(content, dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype).reshape(shape)
    return _from_lists(lists, dtype, shape)


def _from_lists(lists: Mapping[int, list[Any]], dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if len(lists) > 1:
        raise DamagedSource("it has elements of several types")
    ((number, elements),) = lists.items()
    try:
        if number == _HALVES:
            array = np.array(elements, np.uint16).view(dtype)
        elif number in _COMPLEX:
            pairs = np.array(elements, np.float32 if number == _COMPLEX[0] else np.float64)
            array = pairs.view(np.complex64 if number == _COMPLEX[0] else np.complex128).astype(dtype)
        elif dtype.kind in "iub":
            array = _wholes([int(element) for element in elements], dtype)
        else:
            array = np.array(elements).astype(dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedSource(f"its elements are not {dtype}: {error}") from None
    _check_count(array.size, shape)
    return array.reshape(shape)


def _wholes(elements: list[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    # A number without sign is read as one with a sign, whatever its field.
    unsigned = [element % (1 << 64) for element in elements] if dtype == np.uint64 else elements
    array = np.array(unsigned, object).astype(dtype)
    if array.tolist() != unsigned:
        raise DamagedSource(f"its elements are not {dtype}")
    return array


def _shape(message: memoryview) -> tuple[int, ...]:
    shape = []
    for field in fields_of(message):
        if field.number == 2:
            sizes = [whole_of(part) for part in fields_of(bytes_of(field)) if part.number == 1]
            shape.append(sizes[-1] if sizes else 0)
    if any(size < 0 for size in shape):
        raise DamagedSource(f"its shape {tuple(shape)} is invalid")
    return tuple(shape)


def _check_count(count: int, shape: tuple[int, ...]) -> None:
    wanted = math.prod(shape)
    if count != wanted:
        raise DamagedSource(f"it has {count} elements, but its shape {shape} needs {wanted}")
