"""Tries a remedy on a saved step: makes the update, and some steps after it."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch

from barograph.capsule.remedies import DTYPES, Remedy, Trial
from barograph.capsule.torch.casting import Casting
from barograph.capture.torch.norms import norms_of
from barograph.capture.torch.optimizers import parameters_of


class TorchTrial:
    """One remedy being tried.

    Args:
        remedy: The remedy.
        steps: Number of steps after the saved one.
    """

    def __init__(self, remedy: Remedy, steps: int) -> None:
        self._remedy = remedy
        self._left = steps
        dtype = getattr(torch, DTYPES[remedy.value]) if remedy.name == "dtype" else None
        self._casting = None if dtype is None else Casting(dtype)
        self._update = ExitStack()
        self._before: list[torch.Tensor] = []
        self._norm = self._ratio = math.nan
        self._finite = True
        self._good_steps = 0
        self._losses: list[float] = []

    def begin(self) -> None:
        """Prepare the step's forward pass."""
        if self._casting is not None:
            self._casting.begin()

    def backward(self) -> AbstractContextManager[None]:
        """Return a context for a backward pass, in which remedies for the forward pass have no effect."""
        return nullcontext() if self._casting is None else self._casting.paused()

    def before_update(self, optimizer: Any, loss: float) -> None:
        """Change the gradients or the optimizer of the saved step."""
        parameters = list(parameters_of(optimizer))
        self._update.enter_context(self.backward())
        if self._remedy.name == "clip":
            torch.nn.utils.clip_grad_norm_(parameters, float(self._remedy.value))
        elif self._remedy.name == "lr":
            for group in optimizer.param_groups:
                group["lr"] = float(self._remedy.value)
        norms = norms_of([item.grad for item in parameters if item.grad is not None])
        if math.isnan(self._norm):
            self._norm = math.hypot(*norms) if norms else 0.0
        self._before = [item.detach().clone() for item in parameters]
        self._losses.append(loss)
        self._finite = self._finite and math.isfinite(loss) and all(map(math.isfinite, norms))

    def after_update(self, optimizer: Any) -> Trial | None:
        """Check the weights; return the result after the last step or the first non-finite one."""
        parameters = list(parameters_of(optimizer))
        self._update.close()
        moved = math.hypot(*norms_of([item.detach() - before for item, before in zip(parameters, self._before,
                                                                                    strict=True)]))
        weights = math.hypot(*norms_of(self._before))
        if math.isnan(self._ratio):
            self._ratio = moved / weights if weights else math.inf
        self._finite = self._finite and math.isfinite(moved)
        self._good_steps += self._finite
        if self._left and self._finite:
            self._left -= 1
            return None
        return Trial(self._finite, self._good_steps, self._norm, self._ratio, tuple(self._losses))
