"""Walks the autograd graph behind a tensor: operations, shapes, parameters.

Nothing here keeps a graph alive or makes it compute: nodes are held for one walk, and a saved tensor that a
hook has packed away (activation checkpointing would recompute the forward pass for it) is not unpacked.
"""

from __future__ import annotations

import functools
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from barograph.capture.torch.memory import in_memory

_SUFFIX = re.compile(r"(?:Backward\d*)$")
_LAST_AXIS = 1 << 63


@functools.lru_cache(maxsize=1024)
def _operation(name: str) -> str:
    return _SUFFIX.sub("", name.rpartition("::")[2])


def operation(node: Any) -> str:
    """Return what a node of the graph does.

    Example:
        >>> operation(torch.ones(2, requires_grad=True).log().grad_fn)
        'Log'
    """
    return _operation(node.name())


def sources(node: Any) -> list[Any]:
    """Return the nodes that made what went into this one; constants have none."""
    return [source for source, _ in node.next_functions if source is not None]


def shape(node: Any) -> tuple[int, ...] | None:
    """Return the shape of what a node made (of the first, where there are several); None where that is not told.

    Example:
        >>> shape(torch.ones(2, 3, requires_grad=True).exp().grad_fn)
        (2, 3)
    """
    made = getattr(node, "_input_metadata", ())
    return tuple(made[0].shape) if made else None


def saved(node: Any, name: str) -> torch.Tensor | None:
    """Return a tensor that a node keeps for the backward pass; None where there is none, or it is packed away."""
    data = getattr(getattr(node, f"_raw_saved_{name}", None), "data", None)
    return in_memory(data) if isinstance(data, torch.Tensor) else None


def saved_axis(node: Any) -> int | None:
    """Return the axis that a node ran over, from the end if it is negative; None where it keeps none."""
    axis = getattr(node, "_saved_dim", None)
    if not isinstance(axis, int):
        return None
    return axis - (_LAST_AXIS << 1) if axis >= _LAST_AXIS else axis


def given_tensors(tensors: Any) -> list[torch.Tensor]:
    """Return the tensors that a backward pass was given: one, several, or none."""
    given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())
    return [tensor for tensor in given if isinstance(tensor, torch.Tensor)]


def roots_of(tensors: Any) -> list[Any]:
    """Return the nodes that a backward pass over `tensors` starts from."""
    return [tensor.grad_fn for tensor in given_tensors(tensors) if tensor.grad_fn is not None]


class Walk:
    """One breadth-first walk over the ancestors of some nodes.

    Args:
        roots: Where it begins.
        most_nodes: Nodes after which it stops.
        most_secs: Time after which it stops.

    Attributes:
        whole: It came to the end of the graph.
    """

    def __init__(self, roots: Iterable[Any], *, most_nodes: int, most_secs: float) -> None:
        self._roots = list(roots)
        self._most_nodes = most_nodes
        self._most_secs = most_secs
        self.whole = False

    def __iter__(self) -> Iterator[Any]:
        # Also what keeps the nodes from being made anew, as other objects, while we walk.
        seen = dict.fromkeys(self._roots)
        waiting = deque(seen)
        until = time.perf_counter() + self._most_secs
        while waiting:
            node = waiting.popleft()
            yield node
            for source, _ in node.next_functions:
                if source is not None and source not in seen:
                    seen[source] = None
                    waiting.append(source)
            if len(seen) > self._most_nodes or time.perf_counter() > until:
                return
        self.whole = True
