"""The latest steps, kept completely: a finding refers to a past step, whose weights have changed since."""

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
        head: Its step number, and the reason.
        content: Its packed content without the script, which does not change.
        packer: Has the copies of its tensors, and objects stored apart.
    """

    head: CapsuleHead
    content: Mapping[str, Any]
    packer: Packer


class Ring:
    """Keeps the last steps of each optimizer.

    Args:
        steps: Number of steps per optimizer; 0: none.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._kept: dict[str, deque[Taken]] = {}

    def __bool__(self) -> bool:
        """Whether it keeps any."""
        return self._steps > 0

    def keep(self, taken: Taken) -> None:
        """Keep a step, and release the oldest if there are enough."""
        self._kept.setdefault(taken.head.optimizer, deque(maxlen=self._steps)).append(taken)

    def find(self, step: int, optimizer: str) -> Taken | None:
        """Return a step of an optimizer ("": of any); None if it is not available."""
        of = [kept for label, kept in self._kept.items() if optimizer in ("", label)]
        return next((taken for kept in of for taken in kept if taken.head.step == step), None)
