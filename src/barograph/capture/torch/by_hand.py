"""Detects steps of scripts that update weights without an optimizer: `p -= lr * p.grad`.

Such a script calls no hooks. The parameters are compared after a backward pass and at the start of the next pass: if
they changed in between, the script made a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from barograph.capture.torch.graph import Walk, given_tensors, roots_of
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.optimizer_entry import Slot
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.untrained import likeness_of

_MOST_NODES = 4096
_MOST_COMPARED = 4
"""Number of tensors with a few compared elements: changes through `.data` do not increment the version."""


class ByHand:
    """Takes the place of the missing optimizer.

    Attributes:
        param_groups: One group, with the changed tensors, as in a torch optimizer.
        state: Always empty.
    """

    def __init__(self) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": []}]
        self.state: dict[Any, Any] = {}


@dataclass(frozen=True, slots=True)
class _AsItWas:
    """A tensor after a backward pass."""

    tensor: torch.Tensor
    version: int
    address: int
    likeness: list[Any] | None

    def has_moved(self) -> bool:
        now = self.tensor
        return now._version != self.version or now.data_ptr() != self.address or (
            self.likeness is not None and likeness_of(now) != self.likeness)


class HandSteps:
    """Reports when a script has made a step without an optimizer.

    Args:
        names: Names of the models.
        optimizers: Optimizers of the script: with one, nothing is checked.

    Attributes:
        watches: Steps without an optimizer are possible, as far as known.
        optimizer: Takes the place of the missing optimizer.
        replaces: The last step replaced tensors by new ones.
        has_made_steps: A step was recorded.
    """

    def __init__(self, names: ModelNames, optimizers: OptimizerBook) -> None:
        self.watches = True
        self.optimizer: Any = ByHand()
        self._names = names
        self._optimizers = optimizers
        self._reached: list[torch.Tensor] = []
        self._left: list[_AsItWas] = []
        self._gradients: dict[int, torch.Tensor] = {}
        self.replaces = self.has_made_steps = False
        self._now: list[torch.Tensor] = []

    @property
    def waits(self) -> bool:
        """Whether a step may have been made since the last backward pass."""
        return bool(self._left)

    def stop(self) -> None:
        """Stop checking: an optimizer makes the steps."""
        self.watches = False
        self._reached, self._left, self._gradients = [], [], {}
        if not self.has_made_steps:
            self._optimizers.forget(self.optimizer)
        self.optimizer = ByHand()  # the next steps are another training, or a continuation with an optimizer

    def backward_begins(self, tensors: Any) -> None:
        """Note which tensors the loss reaches, if no model is known."""
        self._reached = [] if self._names.roots else _leaves_of(tensors)

    def backward_ended(self) -> bool:
        """Note the values of tensors with a gradient; return whether there are any."""
        known = self._names.with_gradients() if self._names.roots else [
            leaf for leaf in self._reached if leaf.grad is not None]
        if self._optimizers.others_hold(self.optimizer, known):
            self.stop()
            return False
        self.optimizer.param_groups[0]["params"] = known
        compared = {id(item) for item in _to_compare(known)}
        self._left = [_AsItWas(item, item._version, item.data_ptr(),
                               likeness_of(item) if id(item) in compared else None) for item in known]
        return bool(known)

    def keep_gradients(self, slots: Iterable[Slot]) -> None:
        """Copy gradients, because the script may have reset them when its step is detected."""
        self._gradients = {id(slot.parameter): slot.gradient.detach().clone() for slot in slots
                           if slot.gradient is not None}

    def gradient(self, slot: Slot) -> torch.Tensor | None:
        """Return a gradient that was kept."""
        return self._gradients.get(id(slot.parameter))

    def moved(self) -> bool:
        """Return whether any tensor has changed since the last backward pass."""
        return any(item.has_moved() for item in self._left)

    def replaced(self, tensors: Any) -> bool:
        """Return whether the loss of a new pass reaches other tensors instead of those before."""
        if self._names.roots:
            return False
        before, now = [item.tensor for item in self._left], _leaves_of(tensors)
        self._now = now
        self.replaces = bool(now) and not {id(item) for item in before} & {id(item) for item in now} and (
            [item.shape for item in before] == [item.shape for item in now])
        return self.replaces

    def becomes_what_is_now(self) -> bool:
        """Replace the optimizer's tensors by those after the step; return whether these are known."""
        if self.replaces:
            self.optimizer.param_groups[0]["params"], self._now = self._now, []
        return bool(self.optimizer.param_groups[0]["params"])

    def took(self) -> None:
        """Note that the step was recorded."""
        self.has_made_steps = True
        self._left, self._gradients = [], {}


def _to_compare(known: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the smallest tensors that a step would change: those whose gradient is not all zero."""
    found: list[torch.Tensor] = []
    for item in sorted(known, key=torch.Tensor.numel):
        if len(found) == _MOST_COMPARED:
            break
        if item.grad is not None and item.grad.layout is torch.strided and bool(item.grad.any()):
            found.append(item)
    return found


def _leaves_of(tensors: Any) -> list[torch.Tensor]:
    """Return the tensors that get gradients in a backward pass over `tensors`."""
    walk = Walk(roots_of(given_tensors(tensors)), most_nodes=_MOST_NODES, most_secs=math.inf)
    found = (getattr(node, "variable", None) for node in walk)
    return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
