"""Records steps of fastai's optimizers, which are not PyTorch optimizers and call no hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from barograph.capsule.torch.wrapping import wrap
from barograph.capture.imports import after_import
from barograph.capture.torch.inner_optimizer import inner_optimizer
from barograph.capture.torch.optimizers import count_in

_OPTIMIZERS, _HALF = "fastai.optimizer", "fastai.callback.fp16"


def hear_fastai(begins: Callable[[Any, Any, Any], Any], ended: Callable[[Any, Any, Any], Any]) -> None:
    """Have each step told, as torch's hooks tell it, once fastai has been imported.

    Args:
        begins: Called before a step with the optimizer and the arguments.
        ended: Likewise after it.
    """

    def step(original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        begins(args[0], args[1:], kwargs)
        result = original(*args, **kwargs)
        ended(args[0], args[1:], kwargs)
        return result

    def comes() -> None:
        kind = sys.modules[_OPTIMIZERS].Optimizer
        count_in(kind)
        wrap(kind, "step", step)

    after_import(_OPTIMIZERS, comes)


def asked_by_fastai(optimizer: Any) -> Any:
    """Return whose step a gradient scaler is asked for: mixed precision of fastai asks in its own name.

    Returns:
        The optimizer; None: the scaler has let the step through, which is still to come.
    """
    half = sys.modules.get(_HALF)
    if half is None or not isinstance(optimizer, half.MixedPrecision):
        return optimizer
    return inner_optimizer(optimizer.opt) if optimizer.skipped else None
