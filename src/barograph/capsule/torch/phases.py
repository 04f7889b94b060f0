"""The current part of a saved step, if several optimizers share one batch.

A capsule contains the passes of the optimizers that stepped right before the saved step, back to the one that fetched a
batch. Each such pass, and that of the saved step, is a phase. At the start of each, everything is restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Phases:
    """Follows the script from phase to phase, by optimizer steps.

    Args:
        content: Content of the capsule.
        optimizer: Label of the optimizer of the saved step.

    Attributes:
        fed, called, lost: Numbers of batches, model calls and loss calls in the current phase.
        random_is_back: Its random states and variables are restored.
        is_back: Everything else is restored, too.
    """

    def __init__(self, content: Mapping[str, Any], optimizer: str) -> None:
        self._all = [*content["before"], content]
        self._first = content["others"] - len(content["before"])
        self._optimizer = optimizer
        self._stepped = 0
        self._enter()

    @property
    def now(self) -> Mapping[str, Any] | None:
        """Content of the current phase; None: before the first."""
        at = self._stepped - self._first
        return self._all[min(at, len(self._all) - 1)] if at >= 0 else None

    @property
    def is_last(self) -> bool:
        """Whether the current phase is that of the saved step."""
        return self.now is self._all[-1]

    def stepped(self, label: str) -> None:
        """Note an optimizer's step, which starts the next phase."""
        # The optimizer of the saved step, out of order: a script may start its first round elsewhere. Start over.
        self._stepped = 0 if label == self._optimizer else self._stepped + 1
        self._enter()

    def _enter(self) -> None:
        self.fed = self.called = self.lost = 0
        self.is_back = self.random_is_back = False
