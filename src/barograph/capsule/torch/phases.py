"""The part of a held step that the script is in, if several optimizers share one batch.

A capsule holds the passes of the optimizers that stepped right before the held step, back to the one that a batch came
for; here such a pass and the held step's own are phases. In each, everything is put back to where it was then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Phases:
    """Follows the script from phase to phase, by optimizer steps.

    Args:
        content: Of the capsule.
        optimizer: Label of the one whose step is held.

    Attributes:
        fed, called, lost: Batches, calls of models and of loss functions that the phase under way has had.
        random_is_back: Random states and variables were put back in it.
        is_back: And everything else was.
    """

    def __init__(self, content: Mapping[str, Any], optimizer: str) -> None:
        self._all = [*content["before"], content]
        self._first = content["others"] - len(content["before"])
        self._optimizer = optimizer
        self._stepped = 0
        self._enter()

    @property
    def now(self) -> Mapping[str, Any] | None:
        """What the phase under way was made of; None: the script has not come to the first."""
        at = self._stepped - self._first
        return self._all[min(at, len(self._all) - 1)] if at >= 0 else None

    @property
    def is_last(self) -> bool:
        """Whether the phase under way is the held step's own."""
        return self.now is self._all[-1]

    def stepped(self, label: str) -> None:
        """Note that an optimizer has made its step: another phase begins."""
        # The held optimizer's own, out of turn: a script may begin its first round elsewhere. It counts anew.
        self._stepped = 0 if label == self._optimizer else self._stepped + 1
        self._enter()

    def _enter(self) -> None:
        self.fed = self.called = self.lost = 0
        self.is_back = self.random_is_back = False
