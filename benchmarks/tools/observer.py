"""The interface of a tool that observes training steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

Facts = Mapping[str, Any]
"""Facts that an adapter reports about its own work after closing, so that a tool that recorded nothing is noticed."""


class Observer(Protocol):
    """A tool attached to one model. Each module here has `attach(model, optimizer, loss_fn, *, directory)`."""

    def before_update(self, loss: Tensor) -> None:
        """Observe the gradients, before the optimizer uses them."""

    def after_update(self, loss: Tensor) -> None:
        """Observe the step that has just ended; its gradients still exist."""

    def close(self) -> Facts:
        """Write what is left, detach, and return facts about the recording."""


class Silent:
    """An observer that does nothing, for tools that need no calls."""

    def before_update(self, loss: Tensor) -> None:
        """Do nothing."""

    def after_update(self, loss: Tensor) -> None:
        """Do nothing."""

    def close(self) -> Facts:
        """Return no facts."""
        return {}
