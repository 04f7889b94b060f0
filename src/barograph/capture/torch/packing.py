"""Converts the state of a training to plain data and tensors; `unpacking.py` reverses it.

JSON contains null, booleans, integers, strings, finite floats and lists unchanged. Everything else is an object with
one entry that names its type:

| entry | value |
|---|---|
| `tensor` | the name of a tensor; if unusual, also `device`, `requires_grad`, `strides`, `split` |
| `array`, `bytes` | the name of a tensor: a NumPy array or number, bytes |
| `texts`, `times`, `objects` | a NumPy array of strings or bytes, of times, of other plain data |
| `sparse_coo`, `sparse_csr`, `nested` | the parts of a tensor with that layout |
| `map`, `items` | a mapping whose keys are all strings, or are not; `as` names a class other than `dict` |
| `tuple`, `set`, `frozenset` | members |
| `fields` | a dataclass or a named tuple, of the class in `as` |
| `float`, `complex` | a number that JSON cannot represent |
| `dtype`, `size`, `device`, `path`, `range`, `slice` | an object of that type |
| `image` | a PIL image: mode, size, the name of its bytes, its palette |
| `apart` | the number of an object among those that only pickle can store |

A tensor that occurs twice is stored once, and restored as one tensor.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from barograph.capture.torch.read import is_shard, local, raw_tensor
from barograph.capture.torch.shards import is_distributed, layout_of, part_of
from barograph.errors import NotPlain
from barograph.model.tensor import RawTensor
from barograph.runs.format.tensors import DTYPES

_DEEPEST = 200
SPARSE_CSR = ("crow_indices", "col_indices", "values")


class Packer:
    """Packs values as plain data, and their tensors under names.

    Args:
        keeps_apart: Values that are not plain data are added to `apart`; else they are rejected.
        takes_shards: Store this worker's part of a split tensor.
        copies: Copy tensors. Otherwise they must not change until they are written.

    Attributes:
        tensors: Tensors by name, as a file stores them.
        apart: Objects that only pickle can store.
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
            value: Any value.
            name: Its name, a prefix of the names of its tensors.

        Raises:
            NotPlain: It contains a value that is not plain data, and nothing may be stored apart.
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
            return self._once(value, lambda: self._array(value, name, depth))
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
        if kind is slice:
            return {"slice": [inside(getattr(value, end), end) for end in ("start", "stop", "step")]}
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
            # A reference to the value, so that its identity is not reused.
            known = self._known[id(value)] = (value, pack())
        return known[1]

    def _tensor(self, value: torch.Tensor, name: str, depth: int) -> dict[str, Any]:
        if is_shard(value) and not self._takes_shards:
            raise NotPlain(f"{name} is split over workers")
        item = local(part_of(value)).detach()
        properties: dict[str, Any] = {"split": layout_of(value, name)} if is_distributed(value) else {}
        if item.device.type != "cpu":
            properties["device"] = str(item.device)
        if value.requires_grad:
            properties["requires_grad"] = True
        if item.is_nested:
            parts = [self._pack(part, f"{name}/{number}", depth + 1) for number, part in enumerate(item.unbind())]
            return {"nested": parts, "layout": str(item.layout).removeprefix("torch."), **properties}
        if item.layout is torch.sparse_coo:
            return {"sparse_coo": {
                "indices": self._named(item._indices(), f"{name}/indices"),
                "values": self._named(item._values(), f"{name}/values"),
                "size": list(item.shape), "coalesced": item.is_coalesced()}, **properties}
        if item.layout is torch.sparse_csr:
            return {"sparse_csr": {"size": list(item.shape), **{
                part: self._named(getattr(item, part)(), f"{name}/{part}") for part in SPARSE_CSR}}, **properties}
        if item.layout is not torch.strided or item.is_quantized or str(item.dtype)[6:] not in DTYPES:
            return dict(self._apart(value, name))
        if not item.is_contiguous() and _is_dense(item):
            properties["strides"] = list(item.stride())
        return {"tensor": self._named(item, name), **properties}

    def _named(self, tensor: torch.Tensor, name: str) -> str:
        return self._put(raw_tensor(tensor.resolve_conj().resolve_neg(), copy=self._copies), name)

    def _put(self, data: RawTensor | bytes, name: str) -> str:
        """Add a tensor under its name, or under a similar one if that is taken; return the name."""
        while name in self.tensors:
            name += "'"
        self.tensors[name] = data if isinstance(data, RawTensor) else RawTensor("uint8", (len(data),), data)
        return name

    def _array(self, value: NDArray[Any] | np.generic, name: str, depth: int) -> dict[str, Any]:
        array = np.asarray(value)
        if array.dtype.name not in DTYPES:
            return dict(self._odd_array(value, name, depth))
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        called = self._put(RawTensor(array.dtype.name, array.shape, little.tobytes()), name)
        return {"array": called} if isinstance(value, np.ndarray) else {"array": called, "number": True}

    def _odd_array(self, value: NDArray[Any] | np.generic, name: str, depth: int) -> Any:
        """Return an array with non-numeric elements."""
        array = np.asarray(value)
        properties = {"shape": list(array.shape), **({} if isinstance(value, np.ndarray) else {"number": True})}
        if array.dtype.kind == "U":
            return {"texts": array.ravel().tolist(), "of": array.dtype.str, **properties}
        if array.dtype.kind == "S":
            return {"texts": self._put(array.tobytes(), name), "of": array.dtype.str, **properties}
        if array.dtype.kind in "mM":
            return {"times": array.ravel().astype(np.int64).tolist(), "of": array.dtype.str, **properties}
        if array.dtype.kind == "O":
            return {"objects": [self._pack(item, f"{name}/{number}", depth + 1)
                                for number, item in enumerate(array.ravel())], **properties}
        return self._apart(value, name)

    def _image(self, value: Any, name: str) -> dict[str, Any]:
        palette = value.getpalette() if value.mode in ("P", "PA") else None
        called = self._put(value.tobytes(), name)
        return {"image": {"mode": value.mode, "size": list(value.size), "data": called, "palette": palette}}

    def _apart(self, value: Any, name: str) -> dict[str, Any]:
        if not self._keeps_apart:
            raise NotPlain(f"{name} holds {type(value).__name__}, which is not plain data")
        self.apart.append(value)
        return {"apart": len(self.apart) - 1, "as": class_name(type(value))}


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements are contiguous, in any order of the axes."""
    return fits(tensor.shape, tensor.stride())


def fits(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the strides make the elements of a shape contiguous, without gaps or overlaps."""
    if len(shape) != len(strides):
        return False
    extent = 1
    for stride, length in sorted((stride, length) for stride, length in zip(strides, shape, strict=True) if length > 1):
        if stride != extent:
            return False
        extent *= length
    return True


def class_name(kind: type) -> str:
    """Return the module and name of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


_SIMPLE: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    complex: lambda value: {"complex": [str(value.real), str(value.imag)]},
    torch.dtype: lambda value: {"dtype": str(value).removeprefix("torch.")},
    torch.Size: lambda value: {"size": list(value)},
    torch.device: lambda value: {"device": str(value)},
    range: lambda value: {"range": [value.start, value.stop, value.step]},
}
