"""Finds parameters that the loss reaches, but no model or optimizer has: layers in a list, for example."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch

from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.untrained import likeness_of


class Unregistered:
    """Tracks these parameters, and whether they change.

    Args:
        names: The models.
        optimizers: The optimizers.
    """

    def __init__(self, names: ModelNames, optimizers: OptimizerBook) -> None:
        self._names = names
        self._optimizers = optimizers
        self._reached: dict[int, weakref.ref[torch.Tensor]] = {}
        self._suspects: dict[int, tuple[weakref.ref[torch.Tensor], list[Any]]] = {}

    def reached(self, leaves: Iterable[torch.Tensor]) -> None:
        """Note leaves of a loss. Tensors other than parameters are skipped: they are intentional."""
        held = self._optimizers.parameters()
        for leaf in leaves:
            # FSDP makes one flat parameter, which is in no optimizer.
            if id(leaf) not in held and type(leaf) is torch.nn.Parameter and not hasattr(leaf, "_is_flat_param"):
                self._reached[id(leaf)] = weakref.ref(leaf)

    def found(self) -> list[torch.Tensor]:
        """Return those that were already found in the previous call, and have not changed since then.

        Parameters that a script changes itself, such as an adversarial example, are excluded; a list of layers is not.
        """
        before = self._suspects
        references = {**{number: reference for number, (reference, _) in before.items()}, **self._reached}
        self._suspects, self._reached, found = {}, {}, []
        if not references:
            return []  # as in nearly every training: avoids visiting all names
        held, known = self._optimizers.parameters(), {id(parameter) for parameter, _ in self._names.parameters()}
        for number, reference in references.items():
            parameter = reference()
            if parameter is None or parameter.grad is None or number in held or number in known:
                continue
            self._suspects[number] = reference, likeness_of(parameter)
            if number in before and before[number][1] == self._suspects[number][1]:
                found.append(parameter)
        return found
