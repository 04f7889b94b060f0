"""Counts the steps of learning-rate schedulers, and their intended totals."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any

from torch.optim import lr_scheduler

_STEPS_SIZES = 10
_DECAYED = 1e-3


class SchedulerBook:
    """The schedulers that have stepped."""

    def __init__(self) -> None:
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def stepped(self, scheduler: Any) -> None:
        """Note one step of a scheduler, except the one in its constructor."""
        if getattr(scheduler, "_is_initial", False):
            return
        if scheduler not in self._steps:
            # Steps before the checkpoint, for a loaded scheduler.
            epoch = getattr(scheduler, "last_epoch", 1)
            self._steps[scheduler] = max(0, int(epoch) - 1) if isinstance(epoch, int) else 0
        self._steps[scheduler] += 1

    def __iter__(self) -> Iterator[Any]:
        """Yield those that still exist."""
        return iter(list(self._steps))

    def of(self, optimizer: Any) -> Iterator[tuple[str, int, float | None]]:
        """Yield class, steps and horizon of each scheduler of an optimizer."""
        for scheduler, steps in list(self._steps.items()):
            if _is_of(scheduler, optimizer):
                yield type(scheduler).__name__, steps, horizon(scheduler)


def _is_of(scheduler: Any, optimizer: Any) -> bool:
    """Return whether a scheduler belongs to an optimizer, or to its wrapper by a library."""
    own = getattr(scheduler, "optimizer", None)
    # Wrappers such as those of Accelerate and Lightning name the wrapped optimizer `optimizer`.
    return own is optimizer or (own is not None and getattr(own, "optimizer", None) is optimizer)


def horizon(scheduler: Any) -> float | None:
    """Return the number of steps for which a scheduler was made; None if unlimited or unknown.

    That is the length of a finite schedule, the last milestone, ten times `step_size`, or the number of steps in which
    an exponential decay reaches 0.001.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], 0.1)
        >>> horizon(lr_scheduler.StepLR(optimizer, step_size=30))
        300.0
    """
    match scheduler:
        case lr_scheduler.CosineAnnealingLR():
            return float(scheduler.T_max)
        case lr_scheduler.OneCycleLR():
            return float(scheduler.total_steps)
        case lr_scheduler.MultiStepLR():
            return float(max(scheduler.milestones, default=0)) or None
        case lr_scheduler.StepLR():
            return float(_STEPS_SIZES * scheduler.step_size)
        case lr_scheduler.ExponentialLR():
            return math.log(_DECAYED) / math.log(scheduler.gamma) if 0 < scheduler.gamma < 1 else None
        case lr_scheduler.PolynomialLR():
            return float(scheduler.total_iters)
        case lr_scheduler.SequentialLR():
            # The last one may be unlimited.
            last = horizon(scheduler._schedulers[-1])
            return None if last is None else scheduler._milestones[-1] + last
        case lr_scheduler.ChainedScheduler():
            known = [known for part in scheduler._schedulers if (known := horizon(part)) is not None]
            return max(known, default=None)
    return None
