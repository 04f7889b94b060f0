"""Sees whether a script resets its gradients between the steps of an optimizer.

One or two small parameters stand for all. At the beginning of each backward pass their gradient must once have
been None or zero since the optimizer's step before; when and how the script did that is its own affair.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from barograph.capture.torch_optimizers import Slot
from barograph.capture.torch_read import local

_PROBES = 2
_SMALLEST = 8
"""Elements below which a gradient may be zero by chance; larger ones are taken first."""

_LARGEST = 1 << 16
_LOOKS = {"cpu": 32}
_LOOKS_ON_A_DEVICE = 3
"""Looks into a gradient after which the same circumstances are held to mean the same."""

_STEPS_TO_NEW_PROBES = 8


class _Probe:
    """One parameter, and its gradient as the step before left it."""

    __slots__ = ("_gradient", "_parameter", "_version", "reset", "used")

    def __init__(self, parameter: torch.Tensor) -> None:
        self._parameter = weakref.ref(parameter)
        self._gradient: weakref.ref[torch.Tensor] | None = None
        self._version = -1
        self.reset = False
        self.used = False

    def has_gradient(self) -> bool:
        parameter = self._parameter()
        return parameter is not None and parameter.grad is not None

    def step_ended(self) -> None:
        """Remember the gradient as it is now."""
        parameter = self._parameter()
        gradient = None if parameter is None else parameter.grad
        self.reset, self._gradient = False, None
        self.used = gradient is not None
        if gradient is not None:
            self._gradient, self._version = weakref.ref(gradient), gradient._version

    def look(self, number: int, memory: _Memory) -> None:
        """Look at the gradient as the `number`-th backward pass since the step begins."""
        parameter = self._parameter()
        if parameter is None:
            return
        gradient = parameter.grad
        if gradient is None:
            self.reset = True
            return
        untouched = self._gradient is not None and self._gradient() is gradient and gradient._version == self._version
        self.reset = memory.is_zero(gradient, (min(number, 2), untouched))


class _Memory:
    """What was found in gradients under the same circumstances: so that a device is asked a few times only."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[int, bool], tuple[bool, int]] = {}

    def is_zero(self, gradient: torch.Tensor, circumstances: tuple[int, bool]) -> bool:
        found, times = self._found.get(circumstances, (False, 0))
        if times >= _LOOKS.get(gradient.device.type, _LOOKS_ON_A_DEVICE):
            return found
        zero = _is_zero(gradient)
        self._found[circumstances] = (zero, times + 1 if zero is found else 1)
        return zero


class _Watch:
    """The probes of one optimizer."""

    __slots__ = ("age", "backwards", "memory", "missed_at", "probes")

    def __init__(self, slots: Sequence[Slot], missed: int) -> None:
        self.probes = [_Probe(parameter) for parameter in _chosen(slots)]
        self.memory = _Memory()
        self.begin(missed)
        self.age = 0

    def begin(self, missed: int) -> None:
        self.backwards, self.missed_at = 0, missed
        for probe in self.probes:
            probe.step_ended()


class GradientResets:
    """Watches the optimizers of a script.

    Attributes:
        missed: Backward passes that nobody looked at; those who do not look count them here.
    """

    def __init__(self) -> None:
        self.missed = 0
        self._watches: dict[str, _Watch] = {}

    def backward_begins(self) -> None:
        """Look at every probe that was not seen reset yet."""
        for watch in self._watches.values():
            watch.backwards += 1
            for probe in watch.probes:
                if not probe.reset:
                    probe.look(watch.backwards, watch.memory)

    def step_ended(self, label: str, slots: Sequence[Slot]) -> float | None:
        """Return whether gradients were kept since the optimizer's step before, and begin anew.

        Returns:
            1.0: kept; 0.0: reset; None: it is the first step, or not all was seen since.
        """
        watch = self._watches.get(label)
        if watch is None:
            self._watches[label] = _Watch(slots, self.missed)
            return None
        judged = [probe for probe in watch.probes if probe.has_gradient()]
        seen = watch.backwards > 0 and watch.missed_at == self.missed and any(probe.used for probe in judged)
        kept = None
        if seen:
            kept = 0.0 if any(probe.reset for probe in judged if probe.used) else 1.0
        watch.age += 1
        if len(judged) < len(watch.probes) or not judged:
            self._choose_anew(label, watch, slots)
        else:
            watch.begin(self.missed)
        return kept

    def _choose_anew(self, label: str, watch: _Watch, slots: Sequence[Slot]) -> None:
        if watch.age < _STEPS_TO_NEW_PROBES:
            watch.begin(self.missed)
        else:
            self._watches[label] = _Watch(slots, self.missed)


def _chosen(slots: Sequence[Slot]) -> list[torch.Tensor]:
    """Return small parameters that have a gradient, the first and the last of those that serve best."""
    usable = [slot.parameter for slot in slots if slot.parameter.grad is not None]
    small = [parameter for parameter in usable if _SMALLEST <= local(parameter).numel() <= _LARGEST]
    best = small or sorted(usable, key=_elements, reverse=True)[:1]
    best = [parameter for parameter in best if _elements(parameter) <= 2 * min(map(_elements, best))]
    return best if len(best) <= _PROBES else [best[0], best[-1]]


def _elements(parameter: torch.Tensor) -> int:
    return local(parameter).numel()


def _is_zero(gradient: Any) -> bool:
    values = local(gradient).detach()
    if values.layout is not torch.strided:
        values = values.coalesce().values() if values.layout is torch.sparse_coo else values.values()
    return int(torch.count_nonzero(values)) == 0
