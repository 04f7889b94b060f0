"""The position of an operation: its module, in the forward or backward pass."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch import nn

from barograph.capture.frames import frames_of_script
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.shards import part_of
from barograph.capture.torch.values import tensors_in


def user_frame() -> FrameType | None:
    """Return the innermost frame of the user's code; None if there is none."""
    return next(iter(frames_of_script(sys._getframe(1))), None)


def _sequence_number() -> int:
    """Return the sequence number of this thread's next graph node."""
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


class Where:
    """Tracks the running module, the graph nodes of each module, and the inputs.

    Args:
        names: Names of the models.
    """

    def __init__(self, names: ModelNames) -> None:
        self._names = names
        self._running: list[tuple[str, int]] = []
        self._made: list[tuple[int, int, str]] = []
        self._fed: dict[int, tuple[torch.Tensor, str]] = {}

    def entered(self, module: nn.Module) -> None:
        """Note the start of a module's forward pass."""
        name = self._names.module(module)
        path = self._names.path(name.root, name.path) if name is not None else ""
        self._running.append((path or type(module).__name__, _sequence_number()))

    def left(self) -> None:
        """Note the end of the current module's forward pass."""
        if self._running:
            path, first = self._running.pop()
            self._made.append((first, _sequence_number(), path))

    def fed(self, value: Any, name: str) -> None:
        """Remember the names of a batch's tensors."""
        for item, tensor in tensors_in(value):
            if tensor.layout is torch.strided:
                self._fed[tensor.untyped_storage().data_ptr()] = (tensor, f"{name}{item}")

    def now(self) -> str:
        """Return the path of the running module; "" outside modules."""
        return self._running[-1][0] if self._running else ""

    def of_node(self, number: int) -> str:
        """Return the innermost module that made a graph node; "" outside modules."""
        within = [(stop - first, path) for first, stop, path in self._made if first <= number < stop]
        return min(within, default=(0, ""))[1]

    def handed_in(self, tensor: torch.Tensor) -> str:
        """Return the name of a tensor that no operation made; "" if unknown."""
        place = tensor.untyped_storage().data_ptr()
        for parameter, name in self._names.parameters():
            if part_of(parameter).untyped_storage().data_ptr() == place:
                return self._names.path(name.root, name.path)
        return self._fed[place][1] if place in self._fed else ""
