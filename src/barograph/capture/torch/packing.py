"""What a training works on as plain data and tensors, and back: nothing that is read can run code.

JSON holds null, truth values, whole numbers, texts, finite fractions and lists as they are. All else is an object
with one entry that says what it is:

| entry | of |
|---|---|
| `tensor` | the name of a tensor; beside it, where they are not the usual: `device`, `requires_grad`, `strides` |
| `array`, `bytes` | the name of a tensor: a NumPy array or number, bytes |
| `sparse_coo`, `sparse_csr`, `nested` | what a tensor of that layout is made of |
| `map`, `items` | a mapping, where all keys are texts and where they are not; `as` names a class other than `dict` |
| `tuple`, `set`, `frozenset` | members |
| `fields` | a dataclass or a named tuple, of the class that `as` names |
| `float`, `complex` | a number that JSON has no word for |
| `dtype`, `size`, `device`, `path`, `range` | what their names say |
| `image` | an image of PIL: mode, size, the name of its bytes, its palette |
| `apart` | the number of an object among those that only pickle can hold |

A tensor that occurs twice is stored once, and is one tensor again.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import sys
from collections import OrderedDict, UserDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from barograph.capture.torch.read import is_shard, local, raw_tensor
from barograph.errors import BarographError, DamagedChunk, NotPlain
from barograph.model.tensor import RawTensor
from barograph.runs.tensors import DTYPES

_DEEPEST = 200
_SPARSE_CSR = ("crow_indices", "col_indices", "values")


class Packer:
    """Packs values into plain data, and their tensors under names.

    Args:
        keeps_apart: What is no plain data goes to `apart`; else it is refused.
        takes_shards: This worker's part of a tensor that is split over workers is taken for the tensor.
        copies: Tensors are copied. Without: they must stay as they are until they are written.

    Attributes:
        tensors: By name, as they are handed to a file.
        apart: Objects that only pickle can hold.
    """

    def __init__(self, *, keeps_apart: bool = False, takes_shards: bool = False, copies: bool = True) -> None:
        self.tensors: dict[str, RawTensor] = {}
        self.apart: list[Any] = []
        self._keeps_apart = keeps_apart
        self._takes_shards = takes_shards
        self._copies = copies
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}

    def pack(self, value: Any, name: str) -> Any:
        """Return a value as plain JSON data.

        Args:
            value: Anything.
            name: Of it, from which its tensors have theirs.

        Raises:
            NotPlain: It holds what is no plain data, and nothing may be kept apart.
        """
        return self._pack(value, name, 0)

    def _pack(self, value: Any, name: str, depth: int) -> Any:
        if value is None or isinstance(value, bool) or type(value) in (int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if depth > _DEEPEST:
            return self._apart(value, name)
        if isinstance(value, torch.Tensor):
            return self._once(value, lambda: self._tensor(value, name, depth))
        if isinstance(value, np.ndarray | np.generic):
            return self._once(value, lambda: self._array(value, name))
        pack = _SIMPLE.get(type(value))
        if pack is not None:
            return pack(value)
        return self._container(value, name, depth)

    def _container(self, value: Any, name: str, depth: int) -> Any:
        def inside(item: Any, part: object) -> Any:
            return self._pack(item, f"{name}/{part}", depth + 1)

        kind = type(value)
        if kind is list:
            return [inside(item, number) for number, item in enumerate(value)]
        if kind in (tuple, set, frozenset):
            return {kind.__name__: [inside(item, number) for number, item in enumerate(value)]}
        if kind in (bytes, bytearray):
            return {"bytes": self._put(bytes(value), name)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"fields": [[field, inside(item, field)] for field, item in zip(value._fields, value, strict=True)],
                    "as": class_name(kind)}
        if dataclasses.is_dataclass(value):
            known = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
            return {"fields": [[field, inside(getattr(value, field), field)] for field in known],
                    "as": class_name(kind)}
        if isinstance(value, Mapping):
            return self._mapping(value, inside)
        if isinstance(value, pathlib.PurePath):
            return {"path": str(value)}
        if kind.__module__.partition(".")[0] == "PIL" and hasattr(value, "tobytes"):
            return self._image(value, name)
        return self._apart(value, name)

    @staticmethod
    def _mapping(value: Mapping[Any, Any], inside: Callable[[Any, object], Any]) -> dict[str, Any]:
        as_class = {} if type(value) is dict else {"as": class_name(type(value))}
        if all(type(key) is str for key in value):
            return {"map": {key: inside(item, key) for key, item in value.items()}, **as_class}
        pairs = [[inside(key, f"key{number}"), inside(item, number)]
                 for number, (key, item) in enumerate(value.items())]
        return {"items": pairs, **as_class}

    def _once(self, value: Any, pack: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        known = self._known.get(id(value))
        if known is None:
            # The value is held, so that no other gets its place.
            known = self._known[id(value)] = (value, pack())
        return known[1]

    def _tensor(self, value: torch.Tensor, name: str, depth: int) -> dict[str, Any]:
        if is_shard(value) and not self._takes_shards:
            raise NotPlain(f"{name} is split over workers")
        item = local(value).detach()
        said: dict[str, Any] = {}
        if item.device.type != "cpu":
            said["device"] = str(item.device)
        if value.requires_grad:
            said["requires_grad"] = True
        if item.is_nested:
            parts = [self._pack(part, f"{name}/{number}", depth + 1) for number, part in enumerate(item.unbind())]
            return {"nested": parts, "layout": str(item.layout).removeprefix("torch."), **said}
        if item.layout is torch.sparse_coo:
            return {"sparse_coo": {
                "indices": self._named(item._indices(), f"{name}/indices"),
                "values": self._named(item._values(), f"{name}/values"),
                "size": list(item.shape), "coalesced": item.is_coalesced()}, **said}
        if item.layout is torch.sparse_csr:
            return {"sparse_csr": {"size": list(item.shape), **{
                part: self._named(getattr(item, part)(), f"{name}/{part}") for part in _SPARSE_CSR}}, **said}
        if item.layout is not torch.strided or item.is_quantized or str(item.dtype)[6:] not in DTYPES:
            return dict(self._apart(value, name))
        if not item.is_contiguous() and _is_dense(item):
            said["strides"] = list(item.stride())
        return {"tensor": self._named(item, name), **said}

    def _named(self, tensor: torch.Tensor, name: str) -> str:
        return self._put(raw_tensor(tensor.resolve_conj().resolve_neg(), copy=self._copies), name)

    def _put(self, data: RawTensor | bytes, name: str) -> str:
        """Put a tensor under its name, or one like it that is free; return that."""
        while name in self.tensors:
            name += "'"
        self.tensors[name] = data if isinstance(data, RawTensor) else RawTensor("uint8", (len(data),), data)
        return name

    def _array(self, value: NDArray[Any] | np.generic, name: str) -> dict[str, Any]:
        array = np.asarray(value)
        if array.dtype.name not in DTYPES:
            return dict(self._apart(value, name))
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        called = self._put(RawTensor(array.dtype.name, array.shape, little.tobytes()), name)
        return {"array": called} if isinstance(value, np.ndarray) else {"array": called, "number": True}

    def _image(self, value: Any, name: str) -> dict[str, Any]:
        palette = value.getpalette() if value.mode in ("P", "PA") else None
        called = self._put(value.tobytes(), name)
        return {"image": {"mode": value.mode, "size": list(value.size), "data": called, "palette": palette}}

    def _apart(self, value: Any, name: str) -> dict[str, Any]:
        if not self._keeps_apart:
            raise NotPlain(f"{name} holds {type(value).__name__}, which is no plain data")
        self.apart.append(value)
        return {"apart": len(self.apart) - 1, "as": class_name(type(value))}


class Unpacker:
    """Makes values of what `Packer` made of them.

    Args:
        tensors: By name.
        where: What is read, for messages.
        apart: What only pickle can hold; where it was not opened, those objects are refused.
        device: Where to put tensors that lay on a device; None: where they lay, if that is there, else in memory.

    Attributes:
        moved: Devices that are not here, of which tensors were put elsewhere.
    """

    def __init__(
        self, tensors: Mapping[str, NDArray[Any]], where: str, *, apart: Sequence[Any] | None = None,
        device: str | None = None,
    ) -> None:
        self.moved: set[str] = set()
        self._tensors = tensors
        self._where = where
        self._apart = apart
        self._device = device
        self._known: dict[str, torch.Tensor] = {}

    def unpack(self, value: Any) -> Any:
        """Return the value.

        Raises:
            DamagedChunk: It says what no packed value says.
            NotPlain: It holds an object that only pickle can hold, or one of a class that this script has not loaded.
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
        return DamagedChunk(f"It holds an entry that it must not: {what} ({self._where}).")

    def _array_called(self, name: Any) -> NDArray[Any]:
        array = self._tensors.get(name)
        if array is None:
            raise DamagedChunk(f"It lacks the tensor {name} ({self._where}).")
        return array

    def _plain_tensor(self, name: Any) -> torch.Tensor:
        array = self._array_called(name)
        dtype = getattr(torch, array.dtype.name)
        if not array.size:
            return torch.empty(array.shape, dtype=dtype)
        # A copy: what the file's bytes share cannot be written to.
        return torch.frombuffer(bytearray(array.tobytes()), dtype=dtype).reshape(array.shape)

    def _placed(self, tensor: torch.Tensor, said: Mapping[str, Any]) -> torch.Tensor:
        wanted = said.get("device")
        if wanted is not None:
            there = self._device or (wanted if _is_here(wanted) else "cpu")
            if there == "cpu":
                self.moved.add(wanted)
            tensor = tensor.to(there)
        return tensor.requires_grad_() if said.get("requires_grad") else tensor

    def _tensor(self, name: Any, said: Mapping[str, Any]) -> torch.Tensor:
        known = self._known.get(str(name))
        if known is None:
            known = self._plain_tensor(name)
            strides = said.get("strides")
            if strides is not None:
                if not _fits(known.shape, strides):
                    raise self._damaged(f"strides {strides} of a tensor of shape {list(known.shape)}")
                known = torch.empty_strided(known.shape, strides, dtype=known.dtype).copy_(known)
            known = self._known[str(name)] = self._placed(known, said)
        return known

    def _sparse_coo(self, made_of: Any, said: Mapping[str, Any]) -> torch.Tensor:
        indices, values = self._plain_tensor(made_of["indices"]), self._plain_tensor(made_of["values"])
        tensor = torch.sparse_coo_tensor(indices, values, made_of["size"], check_invariants=True)
        return self._placed(tensor._coalesced_(bool(made_of["coalesced"])), said)

    def _sparse_csr(self, made_of: Any, said: Mapping[str, Any]) -> torch.Tensor:
        rows, columns, values = (self._plain_tensor(made_of[part]) for part in _SPARSE_CSR)
        tensor = torch.sparse_csr_tensor(rows, columns, values, made_of["size"], check_invariants=True)
        return self._placed(tensor, said)

    def _nested(self, parts: Any, said: Mapping[str, Any]) -> torch.Tensor:
        layout = {"jagged": torch.jagged, "strided": torch.strided}[said["layout"]]
        return self._placed(torch.nested.nested_tensor([self._unpack(part) for part in parts], layout=layout), said)

    def _array(self, name: Any, said: Mapping[str, Any]) -> Any:
        array = self._array_called(name).copy()
        return array[()] if said.get("number") else array

    def _map(self, entries: Any, said: Mapping[str, Any]) -> Any:
        return self._mapping({key: self._unpack(item) for key, item in entries.items()}, said)

    def _items(self, pairs: Any, said: Mapping[str, Any]) -> Any:
        return self._mapping({self._unpack(key): self._unpack(item) for key, item in pairs}, said)

    def _mapping(self, found: dict[Any, Any], said: Mapping[str, Any]) -> Any:
        if "as" not in said:
            return found
        kind = _class_called(said["as"])
        # Past what these classes would do when they are made. Of any other class, what it holds: whoever reads it by
        # key finds that.
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

    def _fields(self, pairs: Any, said: Mapping[str, Any]) -> Any:
        kind = _class_called(said["as"])
        values = {str(field): self._unpack(item) for field, item in pairs}
        names = getattr(kind, "_fields", ())
        if isinstance(kind, type) and issubclass(kind, tuple) and set(names) == set(values):
            return tuple.__new__(kind, [values[field] for field in names])
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            # Past __init__ and __post_init__: they may do anything, and have done it when the step was made.
            made = object.__new__(kind)
            for field, item in values.items():
                object.__setattr__(made, field, item)
            return made
        raise NotPlain(f"It holds a {said['as']}, and the script has loaded no such dataclass or named tuple "
                       f"({self._where}).")

    def _image(self, made_of: Any, _: Mapping[str, Any]) -> Any:
        data = self._array_called(made_of["data"]).tobytes()
        image = _pillow(self._where).frombytes(made_of["mode"], tuple(made_of["size"]), data)
        if made_of["palette"] is not None:
            image.putpalette(made_of["palette"])
        return image

    def _kept_apart(self, number: Any, said: Mapping[str, Any]) -> Any:
        if self._apart is None:
            raise NotPlain(f"It holds a {said['as']}, which only pickle can hold, and that was not opened "
                           f"({self._where}).")
        return self._apart[number]


def _pillow(where: str) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise NotPlain(f"It holds an image, and Pillow is not installed here ({where}).") from error
    return Image


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements lie side by side, in any order of the axes."""
    return _fits(tensor.shape, tensor.stride())


def _fits(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether strides lay the elements of a shape side by side, without gaps or overlaps."""
    if len(shape) != len(strides):
        return False
    extent = 1
    for stride, length in sorted((stride, length) for stride, length in zip(strides, shape, strict=True) if length > 1):
        if stride != extent:
            return False
        extent *= length
    return True


def _is_here(device: str) -> bool:
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return kind == "mps" and torch.backends.mps.is_available()
    return torch.cuda.is_available() and int(number or 0) < torch.cuda.device_count()


def class_name(kind: type) -> str:
    """Return where a class is found: module and name."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_called(name: Any) -> Any:
    """Return a class that has been loaded already; None where there is none: nothing is imported for a file."""
    module, _, path = str(name).partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


_SIMPLE: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    complex: lambda value: {"complex": [str(value.real), str(value.imag)]},
    torch.dtype: lambda value: {"dtype": str(value).removeprefix("torch.")},
    torch.Size: lambda value: {"size": list(value)},
    torch.device: lambda value: {"device": str(value)},
    range: lambda value: {"range": [value.start, value.stop, value.step]},
}

_ENTRIES: Mapping[str, Callable[[Unpacker, Any, Mapping[str, Any]], Any]] = {
    "tensor": Unpacker._tensor,
    "array": Unpacker._array,
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
}


def _dtype(name: Any) -> torch.dtype:
    found = getattr(torch, str(name))
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name} is no type of elements")
    return found
