"""Whether all is finite: for each type, wherever the one lies that is not, at every size where a block ends."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from barograph.measures import native, plain
from barograph.measures.elements import DTYPE_CODES, element_type

SIZES = (1, 7, 31, 64, 2047, 2048, 2049, 6500, 8192, 8195, 17000)
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


def asked(loops, *tensors: NDArray) -> bool:
    found: bool = loops.all_finite(
        np.array([tensor.ctypes.data for tensor in tensors], np.int64),
        np.array([tensor.size for tensor in tensors], np.int64),
        np.array([DTYPE_CODES[tensor.dtype.name] for tensor in tensors], np.int32))
    return found


def not_finite(dtype: str) -> list[complex | float]:
    if dtype in WHOLE:
        return []
    if dtype.startswith("complex"):
        return [complex(np.nan, 0), complex(0, np.inf), complex(-np.inf, 1), complex(1, np.nan)]
    return [np.nan] if dtype == "float8_e4m3fn" else [np.nan, np.inf, -np.inf]


def test_one_that_is_not_is_found_wherever_it_lies(loops, numbers, dtype):
    for size in SIZES:
        values = np.zeros(size, element_type(DTYPE_CODES[dtype])) + numbers(dtype, size, "normal")
        values = values.astype(element_type(DTYPE_CODES[dtype]))
        assert asked(loops, values)
        for wrong in not_finite(dtype):
            for at in {0, size // 4, size // 2, 3 * size // 4, size - 1}:
                damaged = values.copy()
                damaged[at] = wrong
                assert not asked(loops, damaged)
                assert not asked(loops, values, damaged, values)


@pytest.mark.parametrize("mix", ["any bits", "huge", "tiny"])
def test_the_two_agree(loops, numbers, dtype, mix):
    for size in (0, *SIZES):
        values = numbers(dtype, size, mix)
        assert asked(loops, values) == asked(plain, values)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_agree_on_every_element_that_a_narrow_type_has(loops, dtype):
    kind = element_type(DTYPE_CODES[dtype])
    patterns = np.arange(2 ** (8 * kind.itemsize)).astype(np.uint8 if kind.itemsize == 1 else np.uint16).view(kind)
    with np.errstate(all="ignore"):
        expected = np.isfinite(patterns).tolist()
    assert [asked(loops, patterns[at:at + 1]) for at in range(patterns.size)] == expected


def test_the_largest_numbers_are_finite(either):
    for kind in (np.float16, np.float32, np.float64):
        assert asked(either, np.array([np.finfo(kind).max, np.finfo(kind).min], kind))


def test_elements_need_not_lie_at_a_multiple_of_their_size(loops):
    for kind in (np.float32, np.float64):
        values = np.ones(3000, kind)
        values[-1] = np.inf
        shifted = np.zeros(values.nbytes + 1, np.uint8)
        shifted[1:] = values.view(np.uint8)
        code = np.array([DTYPE_CODES[values.dtype.name]], np.int32)
        assert not loops.all_finite(np.array([shifted.ctypes.data + 1]), np.array([3000]), code)
        assert loops.all_finite(np.array([shifted.ctypes.data + 1]), np.array([2999]), code)


def test_nothing_is_finite(either):
    assert asked(either)
    assert either.all_finite(np.array([0]), np.array([0]), np.array([0], np.int32))


@pytest.mark.parametrize(("entries", "message"), [
    ({"numels": [8, -1]}, "numel is -1"), ({"dtypes": [0, 99]}, "dtype is 99"), ({"numels": [8]}, "one length"),
    ({"pointers": [8, 0]}, "address of 8 elements is 0"),
])
def test_what_is_no_tensor_is_refused(either, entries, message):
    values = np.ones(8, np.float32)
    call = {"pointers": [values.ctypes.data] * 2, "numels": [8, 8], "dtypes": [0, 0]} | entries
    call["pointers"] = [values.ctypes.data if address else 0 for address in call["pointers"]]
    with pytest.raises(ValueError, match=message):
        either.all_finite(np.array(call["pointers"]), np.array(call["numels"]), np.array(call["dtypes"], np.int32))


def test_lists_of_the_wrong_type_are_refused(loops):
    whole = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="dtypes must be"):
        loops.all_finite(whole, whole, whole)
    with pytest.raises(TypeError, match="takes 3 arguments, not 1"):
        loops.all_finite(whole)


def test_the_door_leads_there():
    values = np.array([1.0, np.nan], np.float32)
    assert not asked(native, values)
    assert asked(native, values[:1])
