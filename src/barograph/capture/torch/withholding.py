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
        optimizer: From it.
        gradients: Each parameter with its gradient.
        afterwards: Called when they are given back.
    """

    optimizer: Any
    gradients: list[tuple[torch.Tensor, torch.Tensor]]
    afterwards: Callable[[], None]


class Withholding:
    """Hides the gradients of one optimizer step, and restores them afterwards.

    An optimizer passes over a parameter without a gradient: it moves neither the weight nor what it keeps of it.
    """

    def __init__(self) -> None:
        self._hidden: _Hidden | None = None

    @property
    def hides(self) -> bool:
        """Whether the gradients of the step under way are hidden."""
        return self._hidden is not None

    def hide(self, optimizer: Any, afterwards: Callable[[], None] = lambda: None) -> None:
        """Hide the gradients that an optimizer is about to use, unless they are hidden already.

        Args:
            optimizer: From it.
            afterwards: Called when they have been given back.
        """
        if self._hidden is not None and self._hidden.optimizer is optimizer:
            return
        gradients = [(item, item.grad) for item in parameters_of(optimizer) if item.grad is not None]
        self._hidden = _Hidden(optimizer, gradients, afterwards)
        for parameter, _ in gradients:
            parameter.grad = None

    def give_back(self, optimizer: Any) -> bool:
        """Give back the gradients that were hidden from an optimizer; return whether they were."""
        hidden = self._hidden
        if hidden is None or hidden.optimizer is not optimizer:
            return False
        self._hidden = None
        for parameter, gradient in hidden.gradients:
            parameter.grad = gradient
        hidden.afterwards()
        return True
