"""The inputs of a held step, for all samples of a batch or some of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes as aside

from barograph.capsule.order import ReplayOrder
from barograph.capsule.torch.samples import part_of, rows_of
from barograph.capture.torch.unpacking import Unpacker


class Parts:
    """Unpacks the values of a capsule as requested.

    Args:
        content: Of the capsule.
        unpacker: Of its values.
        order: Says which rows of which batch are fed alone.
    """

    def __init__(self, content: Mapping[str, Any], unpacker: Unpacker, order: ReplayOrder) -> None:
        self._content = content
        self._unpacker = unpacker
        self._order = order

    @functools.cached_property
    def sizes(self) -> list[int]:
        """How many samples each batch of the step holds: what the loader gave, else what the model got."""
        steps = (self._content, *reversed(self._content["before"]))
        packed = next((step["batches"] for step in steps if step["batches"]), None) or [
            call["args"] for call in self._content["calls"]]
        # Not before the script has loaded the classes of its batches.
        with aside():
            return [rows_of(self._unpacker.unpack(item)) for item in packed]

    def batch_of(self, number: int, of: int) -> int:
        """Return which batch a call is about, one of so many calls of the step."""
        return number * len(self.sizes) // max(1, of)

    def samples_of(self, batch: int) -> int:
        """Return how many samples a batch holds, where each of its rows is one; else 0."""
        return self.sizes[batch] if batch < len(self.sizes) and not self._order.rows else 0

    def unpacked(self, packed: Any, batch: int) -> Any:
        """Return a value, with the rows alone that are asked for where it is of the batch that is fed in part."""
        # Without gradients: activation checkpointing would take what is kept for them for the script's own.
        with aside(), torch.no_grad():
            value = self._unpacker.unpack(packed)
            if not self._order.rows or batch != self._order.batch or batch >= len(self.sizes):
                return value
            return part_of(value, self.sizes[batch], self._order.rows)

    def variables_of(self, phase: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return what the script's variables held, by where and by name."""
        # Of a function that calls itself those of the innermost call, which stands first.
        return {item["where"]: {name: self._variable(packed) for name, packed in item["values"].items()}
                for item in reversed(phase["variables"])}

    def _variable(self, packed: Any) -> Any:
        if isinstance(packed, dict) and "slice" in packed:
            return slice(*packed["slice"])
        return self.unpacked(packed, self._order.batch)
