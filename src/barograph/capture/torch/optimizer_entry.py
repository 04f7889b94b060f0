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
        path: As in a Key.
        layer: Class of the module that holds it.
        piece: How it is a plain piece of a larger parameter (FSDP1); None: it is none.
    """

    parameter: torch.Tensor
    path: str
    layer: str
    piece: FlatPiece | None = None

    @property
    def gradient(self) -> torch.Tensor | None:
        """What this worker answers for of its gradient; None where it has none."""
        gradient = self.parameter.grad
        return gradient if gradient is None or self.piece is None else self.own(gradient)

    def own(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what this worker answers for of a tensor with an element for each of the parameter."""
        is_like_it = self.piece is not None and tensor.numel() == self.parameter.numel()
        return self.piece.own(tensor) if self.piece is not None and is_like_it else tensor

    @property
    def is_elsewhere(self) -> bool:
        """Whether all of it lies with other workers."""
        return self.piece is not None and not self.piece.here


def slot_of(parameter: torch.Tensor, name: ParameterName, names: ModelNames) -> Slot:
    """Return a parameter as one of an optimizer, or as one that could be.

    Args:
        parameter: It.
        name: Where it stands.
        names: The models.
    """
    return Slot(parameter, names.path(name.root, name.path), name.layer, name.piece)


@dataclass(slots=True)
class Entry:
    """One optimizer of the script.

    Attributes:
        optimizer: Weakly.
        label: "" where the script has one.
        slots: Its parameters, by path; refreshed when the groups change.
        roots: The models they are in.
        signature: Identities of the parameters the slots were made from.
        held: Those parameters, weakly: identities are given anew once a parameter is gone.
        next_label: Which optimizer stepped after it the last time.
        learning_rates: Of its parameter groups, as they were recorded last.
        made: Which optimizer for these parameters it is, from 1: above where the script makes its optimizer anew.
        shares: Whether it holds parameters that an optimizer before it held.
        is_new: Whether it has not made a step yet that was noticed.
        superseded_by: One that was made for the same parameters after it, until it steps again beside that.
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
        """Note that it makes a step; return whether that is the first."""
        was_new, self.is_new = self.is_new, False
        return was_new

    def note_rates(self, rates: tuple[float, ...]) -> None:
        """Note the learning rates that were recorded."""
        self.learning_rates = rates

    def holds_any(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Return whether the script had handed it any of these parameters."""
        mine = {id(item) for reference in self.held if (item := reference()) is not None}
        return any(id(parameter) in mine for parameter in parameters)
