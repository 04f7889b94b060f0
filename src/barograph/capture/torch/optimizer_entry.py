"""An optimizer and its parameters, as the recording knows them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from barograph.capture.torch.flat import FlatPiece
from barograph.capture.torch.names import ModelNames, ParameterName, Root


@dataclass(slots=True)
class Slot:
    """One parameter of an optimizer.

    Attributes:
        parameter: The tensor.
        path: Path as in a Key.
        layer: Class of the module that contains it.
        piece: Describes its part of a larger parameter (FSDP1); None: it is complete.
    """

    parameter: torch.Tensor
    path: str
    layer: str
    piece: FlatPiece | None = None

    @property
    def gradient(self) -> torch.Tensor | None:
        """This worker's part of its gradient; None if there is none."""
        gradient = self.parameter.grad
        return gradient if gradient is None or self.piece is None else self.own(gradient)

    def own(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return this worker's part of a tensor with the parameter's shape."""
        is_like_it = self.piece is not None and tensor.numel() == self.parameter.numel()
        return self.piece.own(tensor) if self.piece is not None and is_like_it else tensor

    @property
    def is_elsewhere(self) -> bool:
        """Whether all of it is on other workers."""
        return self.piece is not None and not self.piece.here


def slot_of(parameter: torch.Tensor, name: ParameterName, names: ModelNames) -> Slot:
    """Return a parameter as one of an optimizer, or as a candidate.

    Args:
        parameter: The parameter.
        name: Its position.
        names: The models.
    """
    return Slot(parameter, names.path(name.root, name.path), name.layer, name.piece)


@dataclass(slots=True)
class Entry:
    """One optimizer of the script.

    Attributes:
        optimizer: Weak reference.
        label: "" if the script has only one.
        slots: Its parameters, by path; refreshed when the groups change.
        roots: The models that contain them.
        signature: Identities of the parameters from which the slots were made.
        held: Weak references to these parameters: identities are reused once a parameter is gone.
        next_label: Label of the optimizer that stepped after it the last time.
        learning_rates: Recorded learning rates of its parameter groups.
        made: Its number among the optimizers of these parameters, from 1: higher if the script recreates its optimizer.
        shares: It has parameters of an earlier optimizer.
        is_new: No step of it has been observed yet.
        superseded_by: A later optimizer of the same parameters, until this one steps again as well.
    """

    optimizer: weakref.ref[Any]
    label: str
    slots: tuple[Slot, ...] = ()
    roots: tuple[Root, ...] = ()
    signature: tuple[int, ...] = ()
    held: tuple[weakref.ref[torch.Tensor], ...] = ()
    next_label: str = field(default="")
    learning_rates: tuple[float, ...] = ()
    made: int = 1
    shares: bool = False
    is_new: bool = True
    superseded_by: Entry | None = None

    def meet(self) -> bool:
        """Note that it steps; return whether that is the first time."""
        was_new, self.is_new = self.is_new, False
        return was_new

    def note_rates(self, rates: tuple[float, ...]) -> None:
        """Note the recorded learning rates."""
        self.learning_rates = rates

    def holds_any(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Return whether it has any of these parameters."""
        mine = {id(item) for reference in self.held if (item := reference()) is not None}
        return any(id(parameter) in mine for parameter in parameters)
