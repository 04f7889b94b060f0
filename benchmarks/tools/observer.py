"""What the bench asks of a tool that looks at training steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

Facts = Mapping[str, Any]
"""What an adapter found out about its own work after closing, so that a tool that recorded nothing shows."""


class Observer(Protocol):
    """A tool attached to one model. Each module here has `attach(model, optimizer, loss_fn, *, directory)`."""

    def before_update(self, loss: Tensor) -> None:
        """Look at the gradients, before the optimizer uses them."""

    def after_update(self, loss: Tensor) -> None:
        """Look at the step that has just ended; its gradients are still there."""

    def close(self) -> Facts:
        """Write what is left, detach, and say what was recorded."""


class Silent:
    """An observer that does nothing where a tool needs nothing done."""

    def before_update(self, loss: Tensor) -> None:
        """Do nothing."""

    def after_update(self, loss: Tensor) -> None:
        """Do nothing."""

    def close(self) -> Facts:
        """Return no facts."""
        return {}
