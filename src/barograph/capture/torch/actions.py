"""Actions on a PyTorch training: lowering learning rates, withholding updates.

Nothing here runs unless the script or the user allowed it with `allow`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import lr_scheduler

from barograph.capture.live_objects import instances_of
from barograph.capture.orders import NotDone
from barograph.capture.session import Session
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.withholding import Withholding
from barograph.model.actions import ActionName
from barograph.model.significant import significant
from barograph.runs.state.control import Request

_KEPT_BY_SCHEDULERS = ("initial_lr", "max_lr", "min_lr")
"""Entries of a parameter group from which torch's schedulers compute learning rates."""


class TorchActions:
    """Carries out requested actions on a PyTorch training.

    Args:
        session: The session.
        optimizers: Optimizers of the script that have stepped.
        withholding: Hides gradients.
    """

    def __init__(self, session: Session, optimizers: OptimizerBook, withholding: Withholding) -> None:
        self._session = session
        self._optimizers = optimizers
        self._left: dict[str, int] = {}
        self._withheld: list[int] = []
        self._request: Request | None = None
        self._withholding = withholding
        session.steering.set_handler(ActionName.LOWER_LR, self.lower)
        session.steering.set_handler(ActionName.SKIP_STEP, self.skip)

    # Learning rates

    def lower(self, request: Request) -> str:
        """Multiply the learning rates, and the values from which schedulers compute them.

        Raises:
            NotDone: There is nothing to lower.
        """
        factor, floor = request.options["factor"], request.options.get("floor", 0.0)
        before: list[float] = []
        after: list[float] = []
        for optimizer in self._meant(request):
            schedulers = [item for item in instances_of(lr_scheduler.LRScheduler)
                          if getattr(item, "optimizer", None) is optimizer]
            groups = optimizer.param_groups
            for number, group in enumerate(groups):
                was = float(group["lr"])
                before.append(was)
                share = max(factor, floor / was) if was > 0 else factor
                if share < 1:
                    _scale_group(group, share)
                    for scheduler in schedulers:
                        _scale_scheduler(scheduler, number, share)
                after.append(float(group["lr"]))
            if optimizer.param_groups is not groups:
                optimizer.param_groups = groups  # fastai returns copies, and accepts them back
        if not before:
            raise NotDone("no PyTorch optimizer has stepped yet")
        if before == after:
            raise NotDone(f"the learning rate {_listed(before)} is already at its minimum")
        return f"lowered the learning rate from {_listed(before)} to {_listed(after)}"

    def _meant(self, request: Request) -> list[Any]:
        found = {id(item): item for entry in self._optimizers
                 if request.optimizer in ("", entry.label) and (item := entry.optimizer()) is not None}
        # A wrapping optimizer shows the groups of the wrapped one: lower them once.
        shown = [(item.param_groups, item) for item in found.values()]  # kept alive, so that IDs are not reused
        groups = {id(groups): item for groups, item in shown}
        return list(groups.values())

    # Updates

    def skip(self, request: Request) -> None:
        """Withhold the next updates of each selected optimizer; reported after the last.

        Raises:
            NotDone: There is no optimizer, or updates are already being withheld.
        """
        if self._left:
            raise NotDone("updates are already being withheld")
        labels = {entry.label for entry in self._optimizers if request.optimizer in ("", entry.label)
                  and entry.optimizer() is not None}
        if not labels:
            raise NotDone("no PyTorch optimizer has stepped yet")
        self._left = dict.fromkeys(labels, int(request.options["steps"]))
        self._request, self._withheld = request, []

    @property
    def withholds(self) -> bool:
        """Whether the next update is withheld."""
        return bool(self._left)

    def before_update(self, optimizer: Any, *, closure: bool) -> bool:
        """Hide the gradients of a step whose update is withheld; return whether it is."""
        label = self._optimizers.entry(optimizer, refresh=False).label
        if label not in self._left or self._request is None:
            return False
        if closure:
            self._say("the optimizer computes its gradients in a closure, so its update cannot be "
                      "withheld", done=False)
            return False
        self._withholding.hide(optimizer, lambda: self._was_withheld(label))
        return True

    def _was_withheld(self, label: str) -> None:
        self._withheld.append(self._session.counts.made(label))
        self._left[label] -= 1
        self._left = {name: left for name, left in self._left.items() if left > 0}
        if not self._left:
            first, last = min(self._withheld), max(self._withheld)
            self._say(f"withheld the update of step {first}" if first == last else
                      f"withheld the updates of steps {first} to {last}", done=True)

    def _say(self, result: str, *, done: bool) -> None:
        if self._request is not None:
            self._session.steering.report(self._request, result, done=done)
        self._request, self._left = None, {}


def _scale_group(group: dict[str, Any], share: float) -> None:
    for name in ("lr", *_KEPT_BY_SCHEDULERS):
        value = group.get(name)
        if isinstance(value, torch.Tensor):
            with torch.no_grad():
                value.mul_(share)  # in place: a compiled or captured step uses this tensor
        elif isinstance(value, int | float):
            group[name] = value * share


def _scale_scheduler(scheduler: Any, number: int, share: float) -> None:
    for name in ("base_lrs", "max_lrs", "min_lrs"):
        values = getattr(scheduler, name, None)
        if isinstance(values, list) and number < len(values) and isinstance(values[number], int | float):
            values[number] = values[number] * share


def _listed(values: list[float]) -> str:
    return ", ".join(significant(value, 4) for value in dict.fromkeys(values))
