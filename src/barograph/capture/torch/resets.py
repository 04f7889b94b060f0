"""Checks whether a script resets its gradients between optimizer steps.

One small parameter stands for all. At the beginning of a backward pass its gradient must once have been None or
zero since the optimizer's step before; when and how the script did that is its own affair.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch

from barograph.capture.torch.optimizer_entry import Slot
from barograph.capture.torch.read import local

_SMALLEST = 8
"""Elements below which a gradient may be zero by chance; larger ones are taken first."""

_LARGEST = 1 << 16
_LOOKS = {"cpu": 32}
_LOOKS_ON_A_DEVICE = 3
"""Looks into a gradient after which the same circumstances are held to mean the same."""

_STEPS_TO_ANOTHER = 8


class _Watch:
    """The representative parameter of an optimizer, with its gradient after the last step.

    Attributes:
        parameter: Weakly.
        reset: Since then its gradient was seen to be None or zero.
        backwards: Backward passes that have begun since.
        missed_at: How many had been missed by then.
        age: Steps it has been watched for.
    """

    __slots__ = ("_found", "_gradient", "_version", "age", "backwards", "missed_at", "parameter", "reset")

    def __init__(self, parameter: torch.Tensor, missed: int) -> None:
        self.parameter = weakref.ref(parameter)
        self.age = 0
        self._found: dict[tuple[int, bool], tuple[bool, int]] = {}
        self.begin(parameter.grad, missed)

    def begin(self, gradient: torch.Tensor | None, missed: int) -> None:
        """Remember the gradient as a step leaves it."""
        self.reset, self.backwards, self.missed_at = False, 0, missed
        self._gradient, self._version = (0, 0) if gradient is None else (id(gradient), gradient._version)

    def look(self) -> None:
        """Look at the gradient as a backward pass begins."""
        parameter = self.parameter()
        gradient = None if parameter is None else parameter.grad
        if gradient is None:
            self.reset = True
            return
        # Content is what counts: a version also counts up where gradients are added or clipped, and not for
        # `grad.data.zero_()`. But what it says recurs from step to step, so a device is asked a few times only.
        untouched = id(gradient) == self._gradient and gradient._version == self._version
        circumstances = (min(self.backwards, 2), untouched)
        found, times = self._found.get(circumstances, (False, 0))
        if times < _LOOKS.get(gradient.device.type, _LOOKS_ON_A_DEVICE):
            zero = _is_zero(gradient)
            self._found[circumstances] = (zero, times + 1 if zero is found else 1)
            found = zero
        self.reset = found


class GradientResets:
    """Watches a script's optimizers.

    Attributes:
        missed: Backward passes that nobody looked at; those who do not look count them here.
    """

    def __init__(self) -> None:
        self.missed = 0
        self._watches: dict[str, _Watch] = {}

    def backward_begins(self) -> None:
        """Look at every gradient that was not seen reset yet."""
        for watch in self._watches.values():
            watch.backwards += 1
            if not watch.reset:
                watch.look()

    def step_ended(self, label: str, slots: Sequence[Slot]) -> float | None:
        """Return whether gradients were kept since the optimizer's step before, and begin anew.

        Returns:
            1.0: kept; 0.0: reset; None: it is the first step, or not all was seen since.
        """
        watch = self._watches.get(label)
        parameter = None if watch is None else watch.parameter()
        gradient = None if parameter is None else parameter.grad
        if watch is None or gradient is None:
            self._choose(label, slots, watch)
            return None
        kept = None
        if watch.backwards and watch.missed_at == self.missed:
            kept = 0.0 if watch.reset else 1.0
        watch.begin(gradient, self.missed)
        return kept

    def _choose(self, label: str, slots: Sequence[Slot], watch: _Watch | None) -> None:
        """Watch a parameter that has a gradient, in place of one that has none or is gone."""
        if watch is not None and watch.age < _STEPS_TO_ANOTHER:
            watch.age += 1
            watch.begin(None, -1)
            return
        chosen = _chosen(slots)
        if chosen is not None:
            self._watches[label] = _Watch(chosen, self.missed)
        elif watch is not None:
            watch.age = 0


def _chosen(slots: Sequence[Slot]) -> torch.Tensor | None:
    """Return a small parameter that has a gradient; None where none has one."""
    usable = [slot.parameter for slot in slots if slot.parameter.grad is not None]
    small = [parameter for parameter in usable if _SMALLEST <= local(parameter).numel() <= _LARGEST]
    return min(small or usable, key=lambda parameter: abs(local(parameter).numel() - _SMALLEST), default=None)


def _is_zero(gradient: torch.Tensor) -> bool:
    values = local(gradient).detach()
    if values.layout is not torch.strided:
        values = values.coalesce().values() if values.layout is torch.sparse_coo else values.values()
    return int(torch.count_nonzero(values)) == 0
