"""Whole tensors of a chunk as one safetensors file, each under `TICK/KIND:PATH`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from barograph.errors import DamagedChunk, UnsupportedDtype
from barograph.model.key import Key
from barograph.model.tensor import RawTensor

_TYPES: Mapping[str, Any] = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "C64": np.complex64,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}
"""Names of element types in safetensors."""

_NAMES: Mapping[str, str] = {np.dtype(kind).name: name for name, kind in _TYPES.items()}

DTYPES: Mapping[str, Any] = {np.dtype(kind).name: np.dtype(kind) for kind in (*_TYPES.values(), np.complex128)}
"""The types of elements that can be saved, by name."""

_HEADER_LENGTH_BYTES = 8


def array_from_raw(tensor: RawTensor) -> NDArray[Any]:
    """Return the elements of a tensor as an array that shares its bytes.

    Raises:
        UnsupportedDtype: NumPy and ml_dtypes know no such type, or safetensors cannot hold it.

    Example:
        >>> array_from_raw(RawTensor("bfloat16", (1,), bytes([0xC0, 0x3F])))
        array([1.5], dtype=bfloat16)
    """
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        raise UnsupportedDtype(f'Cannot save a tensor of type "{tensor.dtype}". Supported: {", ".join(DTYPES)}.')
    array: NDArray[Any] = np.frombuffer(tensor.data, dtype).reshape(tensor.shape)
    return array


def tensor_entry(tick: int, key: Key) -> str:
    """Return the name of a tensor in its file.

    Example:
        >>> from barograph.model.key import Kind
        >>> tensor_entry(12, Key(Kind.WEIGHT, "fc1.bias"))
        '12/weight:fc1.bias'
    """
    # Undecodable characters become "?", as in the rows that refer to it.
    return f"{tick}/{key}".encode("utf-8", "replace").decode()


class TensorsOrigin(NamedTuple):
    """Origin of a tensor file: run ("": unknown), worker, attempt and chunk."""

    run_id: str
    worker: str
    attempt: int
    chunk: int


def tensors_bytes(tensors: Mapping[str, NDArray[Any]], origin: TensorsOrigin | None = None) -> bytes:
    """Return a file with arrays by name, and its origin.

    safetensors has no complex128: such an array is stored as float64 with one more axis, (real, imaginary), and
    its name is in the metadata entry `complex128`.
    """
    stored = {}
    pairs = []
    for name, array in tensors.items():
        stored[name] = array
        if array.dtype == np.complex128:
            stored[name] = np.ascontiguousarray(array).view(np.float64).reshape(*array.shape, 2)
            pairs.append(name)
    metadata = {"format": "np", "complex128": json.dumps(pairs)}
    if origin is not None:
        metadata["barograph"] = json.dumps(origin._asdict())
    return bytes(save(stored, metadata))


def raw_tensors_bytes(tensors: Mapping[str, RawTensor]) -> bytes:
    """Return a file with raw tensors by name; raises as `array_from_raw`."""
    return tensors_bytes({name: array_from_raw(tensor) for name, tensor in tensors.items()})


def raw_tensors_parts(tensors: Mapping[str, RawTensor]) -> list[bytes | memoryview]:
    """Return the parts of a file with raw tensors by name, in order, without copying tensors.

    The library would concatenate gigabytes that are only written sequentially.

    The library would put gigabytes together that are only written one after another.

    Raises:
        UnsupportedDtype: As `array_from_raw`.
    """
    # Wide elements first, so that each tensor is aligned.
    ordered = sorted(tensors.items(), key=lambda item: (-array_from_raw(item[1]).dtype.itemsize, item[0]))
    pairs = [name for name, tensor in ordered if tensor.dtype == "complex128"]
    header: dict[str, Any] = {"__metadata__": {"format": "np", "complex128": json.dumps(pairs)}}
    parts: list[bytes | memoryview] = []
    at = 0
    for name, tensor in ordered:
        whole = memoryview(tensor.data).cast("B")
        kind, shape = ("F64", [*tensor.shape, 2]) if name in pairs else (_NAMES[tensor.dtype], list(tensor.shape))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(whole)]}
        at += len(whole)
        # Skip empty parts, which not every store accepts.
        parts += [whole] if len(whole) else []
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _HEADER_LENGTH_BYTES)
    return [len(text).to_bytes(_HEADER_LENGTH_BYTES, "little") + text, *parts]


def read_tensors(data: bytes | memoryview, name: str) -> dict[str, NDArray[Any]]:
    """Return all arrays of a file by name; raises as `read_tensor`."""
    return {entry: array for entry in tensor_entries(data, name)
            if (array := read_tensor(data, entry, name)) is not None}


def read_tensor(data: bytes | memoryview, entry: str, name: str) -> NDArray[Any] | None:
    """Return one array of a file; None if the file does not contain it.

    Args:
        data: The whole file; the array shares its bytes and is read-only.
        entry: Name of the tensor.
        name: Name of the file, for the message.

    Raises:
        DamagedChunk: It is not a safetensors file, or its header is invalid.
    """
    header, start = _header(data, name)
    info = header.get(entry)
    if info is None:
        return None
    try:
        first, stop = info["data_offsets"]
        array: NDArray[Any] = np.frombuffer(data[start + first : start + stop], _TYPES[info["dtype"]])
        array = array.reshape(info["shape"])
        if entry in json.loads(header.get("__metadata__", {}).get("complex128", "[]")):
            array = array.view(np.complex128).reshape(info["shape"][:-1])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedChunk(f"Cannot read the tensor {entry}: {error} ({name}).") from error
    return array


def check_tensors_origin(data: bytes | memoryview, origin: TensorsOrigin, name: str) -> None:
    """Raise DamagedChunk if a file has another origin; a file without origin passes."""
    try:
        header = json.loads(_header(data, name)[0].get("__metadata__", {}).get("barograph", "{}"))
        written = {word: value for word, value in header.items() if value != ""}
        known = {word: value for word, value in origin._asdict().items() if value != ""}
        other = [word.removesuffix("_id") for word, value in known.items() if written.get(word, value) != value]
    except (ValueError, TypeError, AttributeError) as error:
        raise DamagedChunk(f"The metadata of the file is invalid: {error} ({name}).") from error
    if other:
        raise DamagedChunk(f"The file belongs to another {' and '.join(other)} than its name and folder say ({name}).")


def tensor_entries(data: bytes | memoryview, name: str) -> list[str]:
    """Return the names of the tensors in a file; raises as `read_tensor`."""
    return sorted(entry for entry in _header(data, name)[0] if entry != "__metadata__")


def _header(data: bytes | memoryview, name: str) -> tuple[dict[str, Any], int]:
    try:
        start = _HEADER_LENGTH_BYTES + int.from_bytes(data[:_HEADER_LENGTH_BYTES], "little")
        header = json.loads(bytes(data[_HEADER_LENGTH_BYTES:start]))
        if not isinstance(header, dict):
            raise TypeError("the header is not a JSON object")
        if not isinstance(header.get("__metadata__", {}), dict):
            raise TypeError("its metadata is not a JSON object")
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedChunk(f"Not a safetensors file: {error} ({name}).") from error
    return header, start
