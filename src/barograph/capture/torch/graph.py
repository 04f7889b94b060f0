"""Walks the autograd graph behind a tensor: operations, shapes, parameters.

Nothing here keeps a graph alive or triggers computation: nodes are referenced during one walk, and a saved tensor
packed by a hook (activation checkpointing would recompute the forward pass for it) is not unpacked.
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
    """Return the name of a node's operation.

    Example:
        >>> operation(torch.ones(2, requires_grad=True).log().grad_fn)
        'Log'
    """
    return _operation(node.name())


def sources(node: Any) -> list[Any]:
    """Return the nodes that made this one's inputs; constants have none."""
    return [source for source, _ in node.next_functions if source is not None]


def shape(node: Any) -> tuple[int, ...] | None:
    """Return the shape of a node's (first) result; None if unknown.

    Example:
        >>> shape(torch.ones(2, 3, requires_grad=True).exp().grad_fn)
        (2, 3)
    """
    made = getattr(node, "_input_metadata", ())
    return tuple(made[0].shape) if made else None


def saved(node: Any, name: str) -> torch.Tensor | None:
    """Return a tensor saved for the backward pass; None if there is none, or it is packed."""
    data = getattr(getattr(node, f"_raw_saved_{name}", None), "data", None)
    return in_memory(data) if isinstance(data, torch.Tensor) else None


def saved_axis(node: Any) -> int | None:
    """Return the saved axis of a node, from the end if negative; None without one."""
    axis = getattr(node, "_saved_dim", None)
    if not isinstance(axis, int):
        return None
    return axis - (_LAST_AXIS << 1) if axis >= _LAST_AXIS else axis


def given_tensors(tensors: Any) -> list[torch.Tensor]:
    """Return the roots of a backward pass: one, several, or none."""
    given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())
    return [tensor for tensor in given if isinstance(tensor, torch.Tensor)]


def roots_of(tensors: Any) -> list[Any]:
    """Return the nodes that a backward pass over `tensors` starts from."""
    return [tensor.grad_fn for tensor in given_tensors(tensors) if tensor.grad_fn is not None]


class Walk:
    """One breadth-first walk over the ancestors of some nodes.

    Args:
        roots: Start nodes.
        most_nodes: Maximum number of nodes.
        most_secs: Time limit.

    Attributes:
        whole: It reached the end of the graph.
    """

    def __init__(self, roots: Iterable[Any], *, most_nodes: int, most_secs: float) -> None:
        self._roots = list(roots)
        self._most_nodes = most_nodes
        self._most_secs = most_secs
        self.whole = False

    def __iter__(self) -> Iterator[Any]:
        # This also keeps node objects alive, which would otherwise be recreated during the walk.
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
