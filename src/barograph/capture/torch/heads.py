"""Finds parallel paths in the graph of a loss: an actor and a critic, two towers.

A head is the first layer behind the loss. Each layer gets the heads it feeds as bits; layers without a common head do
not share gradients.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from barograph.capture.torch.graph import operation, sources

_MOST_HEADS = 52
"""Maximum number of heads: facts are floating-point numbers, which represent integers up to 2**53."""
_MOST_LAYERS = 500


class Heads:
    """Collects the heads of each parameter over the backward passes of a step."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._count = 0

    def walked(self, nodes: Sequence[Any], *, begins: bool) -> None:
        """Add the nodes of one graph.

        Args:
            nodes: All nodes, the root first.
            begins: It is the first backward pass of a step.
        """
        if begins:
            self._of, self._count = {}, 0
        fed: dict[Any, int] = {}
        # Nodes are numbered in order of creation, so a node has a greater number than its inputs.
        waiting = [(-node._sequence_nr(), place, node) for place, node in enumerate(nodes)
                   if operation(node) != "AccumulateGrad"]
        heapq.heapify(waiting)
        while waiting:
            _, _, node = heapq.heappop(waiting)
            below = sources(node)
            leaves = [leaf.variable for leaf in map(_leaf, below) if leaf is not None]
            if leaves and not fed.get(node):
                fed[node] = 1 << self._count if self._count < _MOST_HEADS else 0
                self._count += 1
            for source in below:
                fed[source] = fed.get(source, 0) | fed.get(node, 0)
            for leaf in leaves:
                self._of[id(leaf)] = self._of.get(id(leaf), 0) | fed[node]

    def by_layer(self, layers: Mapping[str, torch.Tensor]) -> dict[str, int]:
        """Return the heads of each layer; empty if all share one, or there are too many.

        Args:
            layers: Path to one parameter of each.
        """
        found = {path: self._of[id(parameter)] for path, parameter in layers.items() if id(parameter) in self._of}
        shared = -1
        for heads in found.values():
            shared &= heads
        return {} if shared or self._count > _MOST_HEADS or len(found) > _MOST_LAYERS else found


def _leaf(node: Any) -> Any:
    """Return the node of a parameter that is passed on unchanged, perhaps transposed; else None."""
    while node is not None and operation(node) in ("T", "Transpose", "View", "ToCopy"):
        node = next(iter(sources(node)), None)
    return node if node is not None and operation(node) == "AccumulateGrad" else None
