"""Withholds an update by hiding the gradients from the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from barograph.capture.torch.optimizers import parameters_of


@dataclass(slots=True)
class _Hidden:
    """Hidden gradients, and the optimizer they are hidden from.

    Attributes:
        optimizer: The optimizer.
        gradients: Each parameter with its gradient.
        afterwards: Called after the gradients are restored.
    """

    optimizer: Any
    gradients: list[tuple[torch.Tensor, torch.Tensor]]
    afterwards: Callable[[], None]


class Withholding:
    """Hides the gradients of one optimizer step, and restores them afterwards.

    An optimizer skips a parameter without a gradient: neither the weight nor its optimizer state changes.
    """

    def __init__(self) -> None:
        self._hidden: _Hidden | None = None

    @property
    def hides(self) -> bool:
        """Whether the gradients of the current step are hidden."""
        return self._hidden is not None

    def hide(self, optimizer: Any, afterwards: Callable[[], None] = lambda: None) -> None:
        """Hide the gradients that an optimizer will use, unless they are hidden already.

        Args:
            optimizer: The optimizer.
            afterwards: Called after they are restored.
        """
        if self._hidden is not None and self._hidden.optimizer is optimizer:
            return
        gradients = [(item, item.grad) for item in parameters_of(optimizer) if item.grad is not None]
        self._hidden = _Hidden(optimizer, gradients, afterwards)
        for parameter, _ in gradients:
            parameter.grad = None

    def give_back(self, optimizer: Any) -> bool:
        """Restore the gradients hidden from an optimizer; return whether there were any."""
        hidden = self._hidden
        if hidden is None or hidden.optimizer is not optimizer:
            return False
        self._hidden = None
        for parameter, gradient in hidden.gradients:
            parameter.grad = gradient
        hidden.afterwards()
        return True
