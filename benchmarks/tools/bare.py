"""No tool: the step by which every other one is divided."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from benchmarks.tools.observer import Observer, Silent


def attach(model: nn.Module, optimizer: Optimizer, loss_fn: nn.Module, *, directory: str) -> Observer:
    """Return an observer that does nothing."""
    return Silent()
