"""Restores values from the plain data of `packing.py`, without running code or importing modules."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections import OrderedDict, UserDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from barograph.capture.torch.packing import SPARSE_CSR, fits
from barograph.capture.torch.shards import whole_of
from barograph.errors import BarographError, DamagedChunk, NotPlain


class Unpacker:
    """Restores the values that a `Packer` packed.

    Args:
        tensors: Tensors by name.
        where: Source of the data, for messages.
        apart: Objects that only pickle can store; rejected if the file with them was not opened.
        device: Device for tensors that were on a device; None: the original one if available, else host memory.
        meshes: Returns the device meshes over which the script has split its tensors.

    Attributes:
        moved: Missing devices whose tensors were moved.
    """

    def __init__(
        self, tensors: Mapping[str, NDArray[Any]], where: str, *, apart: Sequence[Any] | None = None,
        device: str | None = None, meshes: Callable[[], Sequence[Any]] = tuple,
    ) -> None:
        self.moved: set[str] = set()
        self._tensors = tensors
        self._where = where
        self._apart = apart
        self._device = device
        self._meshes = meshes
        self._known: dict[str, torch.Tensor] = {}

    def unpack(self, value: Any) -> Any:
        """Return the value.

        Raises:
            DamagedChunk: Invalid packed data.
            NotPlain: It contains an object that only pickle can store, or of a class that this script has not loaded.
        """
        try:
            return self._unpack(value)
        except BarographError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, RecursionError) as error:
            raise self._damaged(f"{type(error).__name__}: {error}") from error

    def _unpack(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._unpack(item) for item in value]
        if not isinstance(value, dict):
            return value
        for entry, make in _ENTRIES.items():
            if entry in value:
                return make(self, value[entry], value)
        raise self._damaged(f"an entry of {', '.join(map(str, value)) or 'nothing'}")

    def _damaged(self, what: str) -> DamagedChunk:
        return DamagedChunk(f"Unexpected entry: {what} ({self._where}).")

    def _array_called(self, name: Any) -> NDArray[Any]:
        array = self._tensors.get(name)
        if array is None:
            raise DamagedChunk(f"The tensor {name} is missing ({self._where}).")
        return array

    def _plain_tensor(self, name: Any) -> torch.Tensor:
        array = self._array_called(name)
        dtype = getattr(torch, array.dtype.name)
        if not array.size:
            return torch.empty(array.shape, dtype=dtype)
        # A copy: memory shared with the file's bytes is read-only.
        return torch.frombuffer(bytearray(array.tobytes()), dtype=dtype).reshape(array.shape)

    def _placed(self, tensor: torch.Tensor, properties: Mapping[str, Any]) -> torch.Tensor:
        wanted = properties.get("device")
        if wanted is not None:
            there = self._device or (wanted if _is_here(wanted) else "cpu")
            if there == "cpu":
                self.moved.add(wanted)
            tensor = tensor.to(there)
        if "split" in properties:
            tensor = whole_of(tensor, properties["split"], self._meshes(), self._where)
        return tensor.requires_grad_() if properties.get("requires_grad") else tensor

    def _tensor(self, name: Any, properties: Mapping[str, Any]) -> torch.Tensor:
        known = self._known.get(str(name))
        if known is None:
            known = self._plain_tensor(name)
            strides = properties.get("strides")
            if strides is not None:
                if not fits(known.shape, strides):
                    raise self._damaged(f"strides {strides} of a tensor of shape {list(known.shape)}")
                known = torch.empty_strided(known.shape, strides, dtype=known.dtype).copy_(known)
            known = self._known[str(name)] = self._placed(known, properties)
        return known

    def _sparse_coo(self, made_of: Any, properties: Mapping[str, Any]) -> torch.Tensor:
        indices, values = self._plain_tensor(made_of["indices"]), self._plain_tensor(made_of["values"])
        tensor = torch.sparse_coo_tensor(indices, values, made_of["size"], check_invariants=True)
        return self._placed(tensor._coalesced_(bool(made_of["coalesced"])), properties)

    def _sparse_csr(self, made_of: Any, properties: Mapping[str, Any]) -> torch.Tensor:
        rows, columns, values = (self._plain_tensor(made_of[part]) for part in SPARSE_CSR)
        tensor = torch.sparse_csr_tensor(rows, columns, values, made_of["size"], check_invariants=True)
        return self._placed(tensor, properties)

    def _nested(self, parts: Any, properties: Mapping[str, Any]) -> torch.Tensor:
        layout = {"jagged": torch.jagged, "strided": torch.strided}[properties["layout"]]
        tensor = torch.nested.nested_tensor([self._unpack(part) for part in parts], layout=layout)
        return self._placed(tensor, properties)

    def _array(self, name: Any, properties: Mapping[str, Any]) -> Any:
        array = self._array_called(name).copy()
        return array[()] if properties.get("number") else array

    def _texts(self, items: Any, properties: Mapping[str, Any]) -> Any:
        dtype = _kind_of_array(properties["of"], "US")
        if dtype.kind == "U":
            return self._shaped(np.array(items, dtype), properties)
        return self._shaped(np.frombuffer(self._array_called(items).tobytes(), dtype), properties)

    def _times(self, items: Any, properties: Mapping[str, Any]) -> Any:
        return self._shaped(np.array(items, np.int64).astype(_kind_of_array(properties["of"], "mM")), properties)

    def _objects(self, items: Any, properties: Mapping[str, Any]) -> Any:
        flat = np.empty(len(items), object)
        for number, item in enumerate(items):
            flat[number] = self._unpack(item)
        return self._shaped(flat, properties)

    @staticmethod
    def _shaped(flat: NDArray[Any], properties: Mapping[str, Any]) -> Any:
        array = flat.reshape(properties["shape"]).copy()
        return array[()] if properties.get("number") else array

    def _map(self, entries: Any, properties: Mapping[str, Any]) -> Any:
        return self._mapping({key: self._unpack(item) for key, item in entries.items()}, properties)

    def _items(self, pairs: Any, properties: Mapping[str, Any]) -> Any:
        return self._mapping({self._unpack(key): self._unpack(item) for key, item in pairs}, properties)

    def _mapping(self, found: dict[Any, Any], properties: Mapping[str, Any]) -> Any:
        if "as" not in properties:
            return found
        kind = _class_called(properties["as"])
        # Without calling constructors. For any other class, its items: readers that access it by key find them.
        if not isinstance(kind, type):
            return found
        if issubclass(kind, UserDict):
            made = object.__new__(kind)
            object.__setattr__(made, "data", found)
            return made
        if issubclass(kind, OrderedDict):
            ordered = OrderedDict.__new__(kind)
            for key, item in found.items():
                OrderedDict.__setitem__(ordered, key, item)
            return ordered
        if issubclass(kind, dict):
            plain = dict.__new__(kind)
            dict.update(plain, found)
            return plain
        return found

    def _fields(self, pairs: Any, properties: Mapping[str, Any]) -> Any:
        kind = _class_called(properties["as"])
        values = {str(field): self._unpack(item) for field, item in pairs}
        names = getattr(kind, "_fields", ())
        if isinstance(kind, type) and issubclass(kind, tuple) and set(names) == set(values):
            return tuple.__new__(kind, [values[field] for field in names])
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            # Without __init__ and __post_init__, which may have side effects that already happened in the step.
            made = object.__new__(kind)
            for field, item in values.items():
                object.__setattr__(made, field, item)
            return made
        raise NotPlain(f"It holds a {properties['as']}, but the script has loaded no such dataclass or named tuple "
                       f"({self._where}).")

    def _image(self, made_of: Any, _: Mapping[str, Any]) -> Any:
        data = self._array_called(made_of["data"]).tobytes()
        image = _pillow(self._where).frombytes(made_of["mode"], tuple(made_of["size"]), data)
        if made_of["palette"] is not None:
            image.putpalette(made_of["palette"])
        return image

    def _kept_apart(self, number: Any, properties: Mapping[str, Any]) -> Any:
        if self._apart is None:
            raise NotPlain(f"It holds a {properties['as']}, which is pickled, and the pickle was not opened "
                           f"({self._where}).")
        return self._apart[number]


def _pillow(where: str) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise NotPlain(f"It holds an image, but Pillow is not installed ({where}).") from error
    return Image


def _is_here(device: str) -> bool:
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return kind == "mps" and torch.backends.mps.is_available()
    return torch.cuda.is_available() and int(number or 0) < torch.cuda.device_count()


def _class_called(name: Any) -> Any:
    """Return a class that is already loaded; None otherwise: nothing is imported for a file."""
    module, _, path = str(name).partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


_ENTRIES: Mapping[str, Callable[[Unpacker, Any, Mapping[str, Any]], Any]] = {
    "tensor": Unpacker._tensor,
    "array": Unpacker._array,
    "texts": Unpacker._texts,
    "times": Unpacker._times,
    "objects": Unpacker._objects,
    "sparse_coo": Unpacker._sparse_coo,
    "sparse_csr": Unpacker._sparse_csr,
    "nested": Unpacker._nested,
    "map": Unpacker._map,
    "items": Unpacker._items,
    "fields": Unpacker._fields,
    "image": Unpacker._image,
    "apart": Unpacker._kept_apart,
    "bytes": lambda unpacker, name, _: unpacker._array_called(name).tobytes(),
    "tuple": lambda unpacker, members, _: tuple(unpacker._unpack(item) for item in members),
    "set": lambda unpacker, members, _: {unpacker._unpack(item) for item in members},
    "frozenset": lambda unpacker, members, _: frozenset(unpacker._unpack(item) for item in members),
    "float": lambda unpacker, text, _: float(text),
    "complex": lambda unpacker, parts, _: complex(float(parts[0]), float(parts[1])),
    "dtype": lambda unpacker, name, _: _dtype(name),
    "size": lambda unpacker, lengths, _: torch.Size(lengths),
    "device": lambda unpacker, text, _: torch.device(text),
    "path": lambda unpacker, text, _: pathlib.Path(text),
    "range": lambda unpacker, ends, _: range(*ends),
    "slice": lambda unpacker, ends, _: slice(*(unpacker._unpack(end) for end in ends)),
}


def _kind_of_array(name: Any, kinds: str) -> np.dtype[Any]:
    found = np.dtype(str(name))
    if found.kind not in kinds:
        raise ValueError(f"{name} is not a type of such elements")
    return found


def _dtype(name: Any) -> torch.dtype:
    found = getattr(torch, str(name))
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name} is not an element type")
    return found
