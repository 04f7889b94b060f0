"""Whole tensors keep type, shape and bits, in a file that others read."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load

from barograph.errors import DamagedChunk, UnsupportedDtype
from barograph.model.key import Key, Kind
from barograph.model.tensor import RawTensor
from barograph.runs.format.tensors import (
    array_from_raw,
    raw_tensors_parts,
    read_tensor,
    tensor_entries,
    tensor_entry,
    tensors_bytes,
)

DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128",
          "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]


def numpy_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name) if name.startswith(("bfloat", "float8")) else name)


@pytest.mark.parametrize("name", DTYPES)
def test_each_type_comes_back(name: str) -> None:
    array: NDArray = np.arange(6).reshape(2, 3).astype(numpy_type(name))
    stored = tensors_bytes({"a": array_from_raw(RawTensor(name, (2, 3), array.tobytes())), "b": np.zeros(3, np.int8)})
    back = read_tensor(stored, "a", "file")
    assert back is not None
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("shape", [(), (0,), (0, 4), (1,), (2, 1, 3)])
def test_each_shape_comes_back(shape: tuple[int, ...]) -> None:
    back = read_tensor(tensors_bytes({"a": np.full(shape, 1.5, np.complex128)}), "a", "file")
    assert back is not None
    assert back.shape == shape


def test_nan_and_infinity_keep_their_bits() -> None:
    bits = np.array([0x7FC00001, 0xFFC00000, 0x7F800000, 0xFF800000, 0x80000000], np.uint32)
    back = read_tensor(tensors_bytes({"a": bits.view(np.float32)}), "a", "file")
    assert back is not None
    assert back.tobytes() == bits.tobytes()


def test_the_file_opens_with_safetensors_itself() -> None:
    array = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(load(tensors_bytes({"3/weight:fc": array}))["3/weight:fc"], array)


def test_an_array_read_back_cannot_be_written_to() -> None:
    back = read_tensor(tensors_bytes({"a": np.zeros(2)}), "a", "file")
    assert back is not None
    assert not back.flags.writeable


def test_names_of_entries() -> None:
    entry = tensor_entry(12, Key(Kind.CUSTOM, "attention map"))
    assert tensor_entries(tensors_bytes({entry: np.zeros(1)}), "file") == ["12/custom:attention map"]
    assert read_tensor(tensors_bytes({entry: np.zeros(1)}), "13/custom:attention map", "file") is None


def test_a_type_nobody_knows_is_refused() -> None:
    with pytest.raises(UnsupportedDtype, match="quint4x2"):
        array_from_raw(RawTensor("quint4x2", (1,), b"\0"))


CUT_SHORT = tensors_bytes({"a": np.ones(9)})[:-8]


@pytest.mark.parametrize("data", [b"", b"\xff" * 64, (2).to_bytes(8, "little") + b"[]", CUT_SHORT])
def test_what_is_no_file_of_tensors_is_damaged(data: bytes) -> None:
    with pytest.raises(DamagedChunk, match="tensors/p0"):
        read_tensor(data, "a", "tensors/p0/x.safetensors")


@pytest.mark.parametrize("arrays", [
    {}, {"a": np.zeros(0, np.float32)}, {"a": np.float32(1.5)},
    {"small": np.arange(3, dtype=np.int8), "wide": np.arange(2.0), "half": np.ones((2, 1), np.float16),
     "pairs": np.array([[1 + 2j]]), "bits": np.array([True, False, True])},
])
def test_parts_are_the_file_that_the_library_reads(arrays):
    raw = {name: RawTensor(array.dtype.name, array.shape, memoryview(np.ascontiguousarray(array).reshape(-1).view(
        np.uint8))) for name, array in arrays.items()}
    parts = raw_tensors_parts(raw)
    assert all(len(part) for part in parts)
    data = b"".join(parts)
    assert set(load(data)) == set(arrays)
    for name, array in arrays.items():
        back = read_tensor(data, name, "file")
        np.testing.assert_array_equal(back, array)
        assert back.dtype == array.dtype
        assert back.flags.aligned
