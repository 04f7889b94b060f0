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
    """Report each step as torch's hooks do, once fastai has been imported.

    Args:
        begins: Called before a step with the optimizer and the arguments.
        ended: Called after a step, with the same.
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
    """Return the optimizer of a gradient scaler's step, for fastai's mixed precision, which uses its own wrapper.

    Returns:
        The optimizer; None: the scaler has allowed the step, which is still to come.
    """
    half = sys.modules.get(_HALF)
    if half is None or not isinstance(optimizer, half.MixedPrecision):
        return optimizer
    return inner_optimizer(optimizer.opt) if optimizer.skipped else None
