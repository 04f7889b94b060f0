"""Parts of a batch: whatever holds a row for each sample, with some of the rows alone."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from barograph.capture.torch.values import tensors_in


def rows_of(value: Any) -> int:
    """Return how many samples a batch holds: what most of its tensors and lists agree on; 0 where it has none.

    Example:
        >>> rows_of({"words": torch.zeros(57), "starts": torch.zeros(10), "names": ["a"] * 10})
        10
    """
    if next(tensors_in(value), None) is None:
        return 0
    votes: dict[int, float] = {}
    _vote(value, votes, 1.0)
    # The first of those that as many speak for.
    return max(votes, key=lambda size: votes[size], default=0)


def _vote(value: Any, votes: dict[int, float], weight: float) -> None:
    if isinstance(value, torch.Tensor | np.ndarray):
        if value.ndim:
            size = len(value) if isinstance(value, np.ndarray) else value.size(0)
            votes[size] = votes.get(size, 0.0) + weight
    elif isinstance(value, Mapping):
        for item in value.values():
            _vote(item, votes, weight)
    elif _is_dataclass(value):
        for field in dataclasses.fields(value):
            _vote(getattr(value, field.name, None), votes, weight)
    elif isinstance(value, list | tuple):
        if _is_list_of_samples(value, len(value)):
            # Tensors of different lengths: one for each sample, or columns of which most have a row for each.
            ragged = any(isinstance(item, torch.Tensor) for item in value)
            votes[len(value)] = votes.get(len(value), 0.0) + (weight / 2 if ragged else weight)
            weight /= len(value)
        for item in value:
            _vote(item, votes, weight)


def part_of(value: Any, samples: int, rows: Sequence[int]) -> Any:
    """Return a batch with some of its rows alone.

    Args:
        value: Tensors, arrays and lists with `samples` along the first axis are cut; all else stays.
        samples: In the whole batch.
        rows: Which are kept, in this order; one may be kept twice.

    Example:
        >>> part_of({"x": torch.arange(3), "names": ["a", "b", "c"], "scale": 2.0}, 3, [2, 2])
        {'x': tensor([2, 2]), 'names': ['c', 'c'], 'scale': 2.0}
    """
    def cut(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return _rows_of_tensor(item, rows) if item.dim() and item.size(0) == samples else item
        if isinstance(item, np.ndarray):
            return item[list(rows)] if item.ndim and item.shape[0] == samples else item
        if _is_list_of_samples(item, samples):
            return type(item)(item[row] for row in rows)
        if _is_dataclass(item):
            made = copy.copy(item)
            for field in dataclasses.fields(item):
                # One that is frozen, too.
                object.__setattr__(made, field.name, part_of(getattr(item, field.name), samples, rows))
            return made
        return item

    return _pytree.tree_map(cut, value, is_leaf=lambda item: _is_list_of_samples(item, samples) or _is_dataclass(item))


def _rows_of_tensor(tensor: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    if tensor.is_nested:
        parts = tensor.unbind()
        return torch.nested.nested_tensor([parts[row] for row in rows], layout=tensor.layout)
    if tensor.layout is torch.strided:
        return tensor[list(rows)]
    # Sparse tensors take no list of indices.
    part = tensor.to_sparse(layout=torch.sparse_coo).index_select(0, torch.tensor(rows, device=tensor.device))
    made: torch.Tensor = part.coalesce().to_sparse(layout=tensor.layout)
    return made


def bad_rows(tensor: torch.Tensor, samples: int) -> tuple[int, ...]:
    """Return the samples at whose rows a tensor is not finite; none where it has not as many rows for each.

    Heads of attention and places of a text are often laid out as rows, those of one sample after another.
    """
    if not samples or not tensor.dim() or not tensor.numel() or tensor.shape[0] % samples or not (
            tensor.is_floating_point()):
        return ()
    found = ~torch.isfinite(tensor.detach()).reshape(samples, -1).all(1)
    return tuple(torch.nonzero(found).flatten().tolist())


def _is_dataclass(item: Any) -> bool:
    return dataclasses.is_dataclass(item) and not isinstance(item, type)


def _is_list_of_samples(item: Any, samples: int) -> bool:
    """Return whether a list has one entry for each sample: plain ones, or tensors of different lengths."""
    if type(item) not in (list, tuple) or len(item) != samples or not samples:
        return False
    tensors = [part for part in item if isinstance(part, torch.Tensor)]
    if not tensors:
        return not any(isinstance(part, list | tuple | Mapping | np.ndarray) or _is_dataclass(part) for part in item)
    lengths = [part.size(0) if part.dim() else -1 for part in tensors]
    # Columns mostly have a row for each sample; among samples one may happen to be as long as there are of them.
    return len(tensors) == samples and len(set(lengths)) > 1 and 2 * lengths.count(samples) < samples
