"""The latest steps, kept in full: a finding refers to a past step, whose weights have changed since."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barograph.capture.torch.packing import Packer
from barograph.model.capsule import CapsuleHead


@dataclass(frozen=True, slots=True)
class Taken:
    """A step, copied right before its update.

    Attributes:
        head: Of which step, and why.
        content: What it was made of, packed; without the script, which stays the same.
        packer: Holds the copies of its tensors, and what it keeps apart.
    """

    head: CapsuleHead
    content: Mapping[str, Any]
    packer: Packer


class Ring:
    """Keeps the last steps of each optimizer.

    Args:
        steps: How many of each; 0: none.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._kept: dict[str, deque[Taken]] = {}

    def __bool__(self) -> bool:
        """Whether it keeps any."""
        return self._steps > 0

    def keep(self, taken: Taken) -> None:
        """Keep a step, and let go of the oldest where there are enough."""
        self._kept.setdefault(taken.head.optimizer, deque(maxlen=self._steps)).append(taken)

    def find(self, step: int, optimizer: str) -> Taken | None:
        """Return a step of an optimizer ("": of whichever); None where it is not kept, or no more."""
        of = [kept for label, kept in self._kept.items() if optimizer in ("", label)]
        return next((taken for kept in of for taken in kept if taken.head.step == step), None)
