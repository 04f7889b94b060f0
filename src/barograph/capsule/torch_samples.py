"""Parts of a batch: whatever holds a row for each sample, with some of the rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from barograph.capture.torch_values import tensors_in


def rows_of(value: Any) -> int:
    """Return how many samples a batch holds: the length of the first axis of its first tensor; 0 where it has none."""
    return next((tensor.shape[0] for _, tensor in tensors_in(value) if tensor.dim()), 0)


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
            return item[list(rows)] if item.dim() and item.shape[0] == samples else item
        if isinstance(item, np.ndarray):
            return item[list(rows)] if item.ndim and item.shape[0] == samples else item
        if _is_list_of_samples(item, samples):
            return [item[row] for row in rows]
        return item

    return _pytree.tree_map(cut, value, is_leaf=lambda item: _is_list_of_samples(item, samples))


def bad_rows(tensor: torch.Tensor, samples: int) -> tuple[int, ...]:
    """Return the rows of a tensor in which something is not finite; none where it has no row for each sample."""
    if not samples or not tensor.dim() or tensor.shape[0] != samples or not tensor.is_floating_point():
        return ()
    found = ~torch.isfinite(tensor.detach()).reshape(samples, -1).all(1)
    return tuple(torch.nonzero(found).flatten().tolist())


def _is_list_of_samples(item: Any, samples: int) -> bool:
    return type(item) is list and len(item) == samples and not any(isinstance(part, torch.Tensor) for part in item)
