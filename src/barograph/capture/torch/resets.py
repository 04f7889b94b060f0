"""Checks whether a script resets its gradients between optimizer steps.

One small parameter represents all. Its gradient must have been None or zero at the start of a backward pass since the
optimizer's previous step; when and how the script did that does not matter.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch

from barograph.capture.torch.optimizer_entry import Slot
from barograph.capture.torch.read import local

_SMALLEST = 8
"""A gradient with fewer elements may be zero by chance; larger ones are preferred."""

_LARGEST = 1 << 16
_LOOKS = {"cpu": 32}
_LOOKS_ON_A_DEVICE = 3
"""Number of reads of a gradient on a device after which the same sequence of events is taken to mean the same."""

_STEPS_TO_ANOTHER = 8


class _Watch:
    """The representative parameter of an optimizer, with its gradient after the last step.

    Attributes:
        parameter: Weak reference.
        reset: Its gradient was None or zero since then.
        backwards: Number of backward passes since then.
        missed_at: Number of unobserved backward passes at that time.
        age: Number of steps it has been watched.
    """

    __slots__ = ("_found", "_gradient", "_version", "age", "backwards", "missed_at", "parameter", "reset")

    def __init__(self, parameter: torch.Tensor, missed: int) -> None:
        self.parameter = weakref.ref(parameter)
        self.age = 0
        self._found: dict[tuple[int, bool], tuple[bool, int]] = {}
        self.begin(parameter.grad, missed)

    def begin(self, gradient: torch.Tensor | None, missed: int) -> None:
        """Remember the gradient after a step."""
        self.reset, self.backwards, self.missed_at = False, 0, missed
        self._gradient, self._version = (0, 0) if gradient is None else (id(gradient), gradient._version)

    def look(self) -> None:
        """Check the gradient at the start of a backward pass."""
        parameter = self.parameter()
        gradient = None if parameter is None else parameter.grad
        if gradient is None:
            self.reset = True
            return
        # Content decides: a version also increases when gradients are accumulated or clipped, but not for
        # `grad.data.zero_()`. The same events recur each step, so a device is read only a few times.
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
        missed: Number of unobserved backward passes, counted by the callers that skip them.
    """

    def __init__(self) -> None:
        self.missed = 0
        self._watches: dict[str, _Watch] = {}

    def backward_begins(self) -> None:
        """Check every gradient that has not been reset yet."""
        for watch in self._watches.values():
            watch.backwards += 1
            if not watch.reset:
                watch.look()

    def step_ended(self, label: str, slots: Sequence[Slot]) -> float | None:
        """Return whether gradients were kept since the optimizer's previous step, and restart.

        Returns:
            1.0: kept; 0.0: reset; None: it is the first step, or not everything was observed.
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
        """Choose a parameter with a gradient, if the current one has none or is gone."""
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
    """Return a small parameter that has a gradient; None if none has."""
    usable = [slot.parameter for slot in slots if slot.parameter.grad is not None]
    small = [parameter for parameter in usable if _SMALLEST <= local(parameter).numel() <= _LARGEST]
    return min(small or usable, key=lambda parameter: abs(local(parameter).numel() - _SMALLEST), default=None)


def _is_zero(gradient: torch.Tensor) -> bool:
    values = local(gradient).detach()
    if values.layout is not torch.strided:
        values = values.coalesce().values() if values.layout is torch.sparse_coo else values.values()
    return int(torch.count_nonzero(values)) == 0
