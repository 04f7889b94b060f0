"""The PyTorch optimizer inside fastai's wrapper, whose hooks are called."""

from __future__ import annotations

from typing import Any

import torch


def inner_optimizer(optimizer: Any) -> Any:
    """Return the optimizer that makes fastai's steps: torch's in an `OptimWrapper`, else the object itself."""
    inner = getattr(optimizer, "opt", None)
    return inner if isinstance(inner, torch.optim.Optimizer) else optimizer
