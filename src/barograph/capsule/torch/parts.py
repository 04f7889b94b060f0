"""The inputs of a saved step, for all samples of a batch or some of them."""

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
        content: Content of the capsule.
        unpacker: Unpacker of its values.
        order: Names the rows of the batch to feed.
    """

    def __init__(self, content: Mapping[str, Any], unpacker: Unpacker, order: ReplayOrder) -> None:
        self._content = content
        self._unpacker = unpacker
        self._order = order

    @functools.cached_property
    def sizes(self) -> list[int]:
        """Number of samples in each batch of the step: as the loader yielded it, or else as the model got it."""
        steps = (self._content, *reversed(self._content["before"]))
        packed = next((step["batches"] for step in steps if step["batches"]), None) or [
            call["args"] for call in self._content["calls"]]
        # Not before the script has imported the classes of its batches.
        with aside():
            return [rows_of(self._unpacker.unpack(item)) for item in packed]

    def batch_of(self, number: int, of: int) -> int:
        """Return the batch of a call, by its index among the calls of the step."""
        return number * len(self.sizes) // max(1, of)

    def samples_of(self, batch: int) -> int:
        """Return the number of samples in a batch, if each row is one; otherwise 0."""
        return self.sizes[batch] if batch < len(self.sizes) and not self._order.rows else 0

    def unpacked(self, packed: Any, batch: int) -> Any:
        """Return a value; if it belongs to the reduced batch, with only the requested rows."""
        # Without gradients: activation checkpointing would mistake the tensors saved for them for the script's.
        with aside(), torch.no_grad():
            value = self._unpacker.unpack(packed)
            if not self._order.rows or batch != self._order.batch or batch >= len(self.sizes):
                return value
            return part_of(value, self.sizes[batch], self._order.rows)

    def variables_of(self, phase: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the original values of the script's variables, by location and name."""
        # For a recursive function, those of the innermost call, which comes first.
        return {item["where"]: {name: self._variable(packed) for name, packed in item["values"].items()}
                for item in reversed(phase["variables"])}

    def _variable(self, packed: Any) -> Any:
        if isinstance(packed, dict) and "slice" in packed:
            return slice(*packed["slice"])
        return self.unpacked(packed, self._order.batch)
