"""Detects steps of scripts that update weights without an optimizer: `p -= lr * p.grad`.

Such a script calls no hooks. The parameters are compared after a backward pass and at the start of the next pass: if
they changed in between, the script made a step.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from barograph.capture.torch.graph import Walk, given_tensors, roots_of
from barograph.capture.torch.names import ModelNames
from barograph.capture.torch.optimizer_entry import Slot
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.untrained import likeness_of

Gradients = Mapping[int, tuple[torch.Tensor, torch.Tensor]]
"""Tensors with the gradients that `torch.autograd.grad` has returned for them, by identity of the tensor."""

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
        self._root: weakref.ref[torch.Tensor] | None = None
        self._were_returned = self._calls_backward = False
        self.replaces = self.has_made_steps = False
        self._now: list[torch.Tensor] = []

    @property
    def waits(self) -> bool:
        """Whether a step may have been made since the last backward pass."""
        return bool(self._left)

    @property
    def waits_with_returned(self) -> bool:
        """Whether a step with gradients that `torch.autograd.grad` returned may have been made."""
        return self.waits and self._were_returned

    def stop(self) -> None:
        """Stop checking: an optimizer makes the steps."""
        self.watches = False
        self._reached, self._left, self._gradients, self._root = [], [], {}, None
        if not self.has_made_steps:
            self._optimizers.forget(self.optimizer)
        self.optimizer = ByHand()  # the next steps are another training, or a continuation with an optimizer

    def backward_begins(self, tensors: Any) -> None:
        """Note which tensors the loss reaches, if no model is known."""
        self._reached = [] if self._names.roots else _leaves_of(tensors)

    def are_weights(self, tensors: Iterable[torch.Tensor]) -> bool:
        """Return whether `torch.autograd.grad` with respect to these tensors may precede a step.

        It does not if an optimizer exists, if none of them is a parameter of a known model, or if the script makes its
        steps with `backward`: then it only measures something.
        """
        waits_with_grad = not self._were_returned and any(item.tensor.grad is not None for item in self._left)
        if self._calls_backward or waits_with_grad:
            return False
        leaves = [item for item in tensors if item.is_leaf and item.requires_grad]
        known = not self._names.roots or any(self._names.parameter(item) is not None for item in leaves)
        return bool(leaves) and known and not self._optimizers.there()

    def is_root(self, root: torch.Tensor) -> bool:
        """Return whether the last call of `torch.autograd.grad` had this root, and no step came after it."""
        return self._root is not None and self._root() is root

    def note_root(self, root: torch.Tensor) -> None:
        """Note the root of `torch.autograd.grad`. A reference would keep its graph alive."""
        self._root = weakref.ref(root)

    def backward_ended(self, returned: Gradients | None = None) -> bool:
        """Note the values of tensors with a gradient; return whether there are any.

        Args:
            returned: Tensors with their gradients, which are not in `.grad`; None: they are. Those of several calls
                without a step in between are of one step.
        """
        before: list[_AsItWas] = []
        if returned is not None:
            before = self._left if self._were_returned else []
            there = {id(item.tensor) for item in before}
            known = [leaf for key, (leaf, _) in returned.items() if key not in there]
        else:
            self._root = None
            known = self._names.with_gradients() if self._names.roots else [
                leaf for leaf in self._reached if leaf.grad is not None]
        if self._optimizers.others_hold(self.optimizer, known):
            self.stop()
            return False
        if not before:
            self._gradients = {}
        self._were_returned = returned is not None
        most = max(1, _MOST_COMPARED - sum(item.likeness is not None for item in before))
        compared = {id(item) for item in _to_compare(known, returned or {}, most)}
        self._left = before + [_AsItWas(item, item._version, item.data_ptr(),
                                        likeness_of(item) if id(item) in compared else None) for item in known]
        self._set_parameters(returned is not None)
        return self.waits

    def _set_parameters(self, were_returned: bool) -> None:
        """Give the optimizer the tensors of the step. It keeps those of the last one if it has them all."""
        group, tensors = self.optimizer.param_groups[0], [item.tensor for item in self._left]
        if not were_returned or not {id(item) for item in tensors} <= {id(item) for item in group["params"]}:
            # A script that asks for one weight after another would get new slots with each.
            group["params"] = tensors

    def keep_gradients(self, slots: Iterable[Slot], returned: Gradients | None = None) -> None:
        """Copy gradients, because the script may have reset them when its step is detected."""
        if returned is not None:
            self._gradients |= {key: gradient.detach().clone() for key, (_, gradient) in returned.items()}
            return
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
        self._calls_backward |= not self._were_returned
        self._left, self._gradients, self._root = [], {}, None


def gradients_returned(inputs: Any, gradients: Any) -> Gradients:
    """Return the leaves among the inputs of `torch.autograd.grad` that have a gradient."""
    return {id(leaf): (leaf, gradient) for leaf, gradient in zip(each_of(inputs), each_of(gradients), strict=True)
            if isinstance(leaf, torch.Tensor) and leaf.is_leaf and gradient is not None}


def each_of(argument: Any) -> list[Any]:
    """Return the items of an argument of `torch.autograd.grad`."""
    if argument is None or isinstance(argument, torch.Tensor):
        return [] if argument is None else [argument]
    return list(argument.values() if isinstance(argument, dict) else argument)


def loss_in(outputs: Any, grad_outputs: Any) -> torch.Tensor | None:
    """Return the loss that `torch.autograd.grad` differentiates; None if it computes a product with a vector."""
    roots, factors = each_of(outputs), each_of(grad_outputs)
    if len(roots) != 1 or not isinstance(roots[0], torch.Tensor) or roots[0].numel() != 1:
        return None
    return roots[0] if all(item is None or item.numel() == 1 for item in factors) else None


def _to_compare(known: Sequence[torch.Tensor], returned: Gradients, most: int) -> list[torch.Tensor]:
    """Return the smallest tensors that a step would change: those whose gradient is not all zero."""
    found: list[torch.Tensor] = []
    for item in sorted(known, key=torch.Tensor.numel):
        if len(found) == most:
            break
        gradient = returned[id(item)][1] if returned else item.grad
        if gradient is not None and gradient.layout is torch.strided and bool(gradient.any()):
            found.append(item)
    return found


def _leaves_of(tensors: Any) -> list[torch.Tensor]:
    """Return the tensors that get gradients in a backward pass over `tensors`."""
    walk = Walk(roots_of(given_tensors(tensors)), most_nodes=_MOST_NODES, most_secs=math.inf)
    found = (getattr(node, "variable", None) for node in walk)
    return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
