"""Parts of a batch: selects rows in every value that has one row per sample."""

from __future__ import annotations

import copy
import dataclasses
from collections import UserDict
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree

from barograph.capture.torch.values import tensors_in


def rows_of(value: Any) -> int:
    """Return the number of samples in a batch: the length that most of its tensors and lists share; 0 if there are
    none.

    Example:
        >>> rows_of({"words": torch.zeros(57), "starts": torch.zeros(10), "names": ["a"] * 10})
        10
    """
    if next(tensors_in(value), None) is None and not _holds_rows(value, 0):
        return 0
    votes = _Votes()
    votes.hear(value, 1.0)
    # Ties go to the first.
    return max(votes.of, key=lambda size: votes.of[size], default=0)


class _Votes:
    """The number of samples, by majority of the values.

    Attributes:
        of: Total weight by number of samples.
    """

    def __init__(self) -> None:
        self.of: dict[int, float] = {}
        self._heard: set[int] = set()  # objects may refer to each other

    def hear(self, value: Any, weight: float) -> None:
        """Count a value and everything in it."""
        if isinstance(value, torch.Tensor | np.ndarray):
            if value.ndim:
                self._say(len(value) if isinstance(value, np.ndarray) else value.size(0), weight)
        elif isinstance(value, list | tuple):
            if _is_list_of_samples(value, len(value)):
                # Tensors of different lengths: one per sample, or columns, most of which have a row per sample.
                ragged = any(isinstance(item, torch.Tensor) for item in value)
                self._say(len(value), weight / 2 if ragged else weight)
                weight /= len(value)
            for item in value:
                self.hear(item, weight)
        elif isinstance(value, Mapping):
            for item in value.values():
                self.hear(item, weight)
        elif id(value) not in self._heard:
            self._heard.add(id(value))
            for item in _attributes(value).values():
                self.hear(item, weight)

    def _say(self, size: int, weight: float) -> None:
        self.of[size] = self.of.get(size, 0.0) + weight


def part_of(value: Any, samples: int, rows: Sequence[int]) -> Any:
    """Return a batch with only some of its rows.

    Args:
        value: Tensors, arrays and lists with `samples` along the first axis are cut; everything else is unchanged.
        samples: Number of samples in the whole batch.
        rows: Rows to keep, in this order; may contain duplicates.

    Example:
        >>> part_of({"x": torch.arange(3), "names": ["a", "b", "c"], "scale": 2.0}, 3, [2, 2])
        {'x': tensor([2, 2]), 'names': ['c', 'c'], 'scale': 2.0}
    """
    return _Cut(samples, rows).of(value)


class _Cut:
    """Selects rows of one batch.

    Args:
        samples, rows: See `part_of`.
    """

    def __init__(self, samples: int, rows: Sequence[int]) -> None:
        self._samples = samples
        self._rows = rows
        # By identity: an object may occur twice, or contain itself.
        self._made: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        """Return the part of a value."""
        return _pytree.tree_map(
            self._leaf, value, is_leaf=lambda item: _is_list_of_samples(item, self._samples) or bool(_attributes(item)))

    def _leaf(self, item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return _rows_of_tensor(item, self._rows) if item.dim() and item.size(0) == self._samples else item
        if isinstance(item, np.ndarray):
            return item[list(self._rows)] if item.ndim and item.shape[0] == self._samples else item
        if _is_list_of_samples(item, self._samples):
            return type(item)(item[row] for row in self._rows)
        attributes = _attributes(item)
        return self._object(item, attributes) if attributes else item

    def _object(self, item: Any, attributes: Mapping[str, Any]) -> Any:
        if id(item) not in self._made:
            made = self._made[id(item)] = copy.copy(item)
            for name, value in attributes.items():
                # Frozen dataclasses, too.
                object.__setattr__(made, name, self.of(value))
        return self._made[id(item)]


def _rows_of_tensor(tensor: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    if tensor.is_nested:
        parts = tensor.unbind()
        return torch.nested.nested_tensor([parts[row] for row in rows], layout=tensor.layout)
    if tensor.layout is torch.strided:
        return tensor[list(rows)]
    # Sparse tensors cannot be indexed by a list.
    part = tensor.to_sparse(layout=torch.sparse_coo).index_select(0, torch.tensor(rows, device=tensor.device))
    made: torch.Tensor = part.coalesce().to_sparse(layout=tensor.layout)
    return made


def bad_rows(tensor: torch.Tensor, samples: int) -> tuple[int, ...]:
    """Return the samples with non-finite elements; none if the tensor does not have one row per sample.

    Attention heads and positions are often laid out as rows, those of one sample after another.
    """
    if not samples or not tensor.dim() or not tensor.numel() or tensor.shape[0] % samples or not (
            tensor.is_floating_point()):
        return ()
    found = ~torch.isfinite(tensor.detach()).reshape(samples, -1).all(1)
    return tuple(torch.nonzero(found).flatten().tolist())


def _attributes(item: Any) -> dict[str, Any]:
    """Return the attributes to search: of a dataclass always, of others if they contain a tensor."""
    found = _fields(item)
    is_taken = dataclasses.is_dataclass(item) or any(_holds_rows(value, 0) for value in found.values())
    return found if is_taken else {}


def _fields(item: Any) -> dict[str, Any]:
    """Return the attributes of an object of a script's or a library's class.

    Classes of torch and NumPy are excluded: a module, a generator or a distribution is not a batch.
    """
    if isinstance(item, type | ModuleType):
        return {}
    if isinstance(item, Mapping) and not (isinstance(item, UserDict) or dataclasses.is_dataclass(item)):
        return {}
    if type(item).__module__.partition(".")[0] in ("torch", "numpy", "builtins") or isinstance(item, nn.Module):
        return {}
    names = [*getattr(item, "__dict__", ()), *(name for kind in type(item).__mro__ for name in _slots(kind))]
    return {name: getattr(item, name) for name in names if hasattr(item, name)}


def _slots(kind: type) -> tuple[str, ...]:
    names = vars(kind).get("__slots__", ())
    return (names,) if isinstance(names, str) else tuple(name for name in names if not name.startswith("__"))


def _holds_rows(value: Any, depth: int) -> bool:
    if isinstance(value, torch.Tensor | np.ndarray):
        return value.ndim > 0
    if depth >= _DEPTH:
        return False
    items = value if isinstance(value, list | tuple) else (
        value if isinstance(value, Mapping) else _fields(value)).values()
    return any(_holds_rows(item, depth + 1) for item in items)


_DEPTH = 4
"""Maximum depth of the search for tensors within an object: objects may refer to each other."""


def _is_list_of_samples(item: Any, samples: int) -> bool:
    """Return whether a list has one entry per sample: plain values, or tensors of different lengths."""
    if type(item) not in (list, tuple) or len(item) != samples or not samples:
        return False
    tensors = [part for part in item if isinstance(part, torch.Tensor)]
    if not tensors:
        return not any(isinstance(part, list | tuple | Mapping | np.ndarray) or _attributes(part) for part in item)
    lengths = [part.size(0) if part.dim() else -1 for part in tensors]
    # Most columns have a row per sample; one of the samples may have that length by chance.
    return len(tensors) == samples and len(set(lengths)) > 1 and 2 * lengths.count(samples) < samples
