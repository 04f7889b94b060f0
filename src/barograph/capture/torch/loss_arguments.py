"""The arguments of PyTorch loss functions: outputs, targets, and how to interpret them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

CLASS_LOSSES = frozenset({"cross_entropy", "nll_loss", "multi_margin_loss"})
"""Losses whose targets are class numbers (or, for cross-entropy, class probabilities)."""

BINARY_LOSSES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
"""Losses whose targets are 0, 1, or between."""

DISTANCE_LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
"""Losses that measure the distance of outputs from targets."""

VALUE_LOSSES = DISTANCE_LOSSES | {"gaussian_nll_loss", "poisson_nll_loss"}
"""Losses whose targets are values, not classes."""

_IGNORED = -100
_WEIGHTS = ("weight", "pos_weight")


@dataclass(frozen=True, slots=True)
class LossArguments:
    """The arguments of one call of a loss function.

    Attributes:
        outputs: Output of the model.
        target: Targets in the shape that the loss function expects.
        ignored: Class number to ignore.
        weighted: Classes or samples have weights.
    """

    outputs: torch.Tensor
    target: torch.Tensor
    ignored: int = _IGNORED
    weighted: bool = False


def loss_arguments(args: Any, kwargs: Mapping[str, Any]) -> LossArguments | None:
    """Return the outputs and targets of a loss function's call; None if these are not two tensors.

    Example:
        >>> found = loss_arguments((torch.zeros(2, 3),), {"target": torch.ones(2), "ignore_index": 0})
        >>> found.target.tolist(), found.ignored
        ([1.0, 1.0], 0)
    """
    outputs = args[0] if args else kwargs.get("input")
    target = args[1] if len(args) > 1 else kwargs.get("target")
    if not isinstance(outputs, torch.Tensor) or not isinstance(target, torch.Tensor):
        return None
    ignored = kwargs.get("ignore_index", args[4] if len(args) > 4 else _IGNORED)
    # The third positional argument of weighted losses is the weight; of the others, a number or a string.
    weights = (args[2] if len(args) > 2 else None, *map(kwargs.get, _WEIGHTS))
    return LossArguments(outputs.detach(), target.detach(), ignored if isinstance(ignored, int) else _IGNORED,
                         any(isinstance(weight, torch.Tensor) for weight in weights))


def is_sum(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a loss function returns the sum over its elements.

    Example:
        >>> is_sum((), {"reduction": "sum"}), is_sum((), {"reduction": "mean"}), is_sum((), {"size_average": False})
        (True, False, True)
    """
    if len(args) > 2 and "sum" in [item for item in args if isinstance(item, str)]:
        return True
    if not kwargs:
        return False
    summed = kwargs.get("size_average") is False and kwargs.get("reduce") is not False
    return summed or kwargs.get("reduction") == "sum"


def recorded_name(name: str, args: Any, kwargs: Mapping[str, Any]) -> str:
    """Return the name under which a loss is recorded: a sum must not be compared with a mean.

    Example:
        >>> recorded_name("mse_loss", (), {"reduction": "sum"}), recorded_name("mse_loss", (), {})
        ('mse_loss_sum', 'mse_loss')
    """
    return f"{name}_sum" if is_sum(args, kwargs) else name
