"""Gradient norms before clipping, including infinite ones, for the gate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from barograph.capture.torch.norms import fetched, is_finite, stacked_norms
from barograph.capture.torch.optimizer_entry import Slot


class BeforeClip:
    """Checks gradients before clipping, each once per step.

    Args:
        keeps_norms: Norms are requested.
    """

    def __init__(self, *, keeps_norms: bool) -> None:
        self._keeps_norms = keeps_norms
        self._norms: list[tuple[list[int], torch.Tensor]] = []
        self._looked_at: set[int] = set()
        self._lost: dict[int, str] = {}

    def look(self, slots: Sequence[Slot], *, by_value: bool) -> None:
        """Check the gradients of some parameters.

        Clipping by norm keeps NaN and turns infinities into NaN. Clipping by value turns infinities into numbers, so
        then gradients are checked one by one, which waits for the device.

        Args:
            slots: The parameters.
            by_value: Elements are clipped separately.
        """
        new = [(slot, gradient) for slot in slots
               if id(slot.parameter) not in self._looked_at and (gradient := slot.gradient) is not None]
        if not new or not (by_value or self._keeps_norms):
            return
        self._looked_at.update(id(slot.parameter) for slot, _ in new)
        norms = stacked_norms([gradient for _, gradient in new])
        self._norms += [([id(new[at][0].parameter) for at in places], found) for places, found in norms]
        if by_value:
            for (places, _), found in zip(norms, fetched([found for _, found in norms]), strict=True):
                for at, norm in zip(places, found, strict=True):
                    if not math.isfinite(norm) and not is_finite(new[at][1]):
                        self._lost[id(new[at][0].parameter)] = new[at][0].path

    @property
    def norms(self) -> list[tuple[list[int], torch.Tensor]]:
        """Identities of clipped parameters, and the norms of their gradients before, on their device."""
        return list(self._norms)

    def lost(self, slots: Sequence[Slot]) -> list[str]:
        """Return the paths of parameters whose gradient was non-finite before clipping by value."""
        if not self._lost:
            return []
        return [self._lost[id(slot.parameter)] for slot in slots if id(slot.parameter) in self._lost]

    def forget(self) -> None:
        """Release everything at the end of the step."""
        self._norms.clear()
        self._looked_at.clear()
        self._lost.clear()
