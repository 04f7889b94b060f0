"""Reads losses: roots of `backward`, results of loss functions, results of models."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from barograph.capture.buffer import StepBuffer
from barograph.capture.session import Session
from barograph.capture.torch.device import fetch_number_later
from barograph.capture.torch.graph import given_tensors
from barograph.capture.torch.light import TOTAL
from barograph.capture.torch.phase import Phase
from barograph.model.key import Kind

_SCALED_LOSSES = 7
_NO_VALUES = (0.0, 0)


class LossRecorder:
    """Records losses as plain numbers, without making training wait for a device."""

    def __init__(self, session: Session, phase: Phase) -> None:
        self._session = session
        self._phase = phase
        self._wanted = False
        self._scaled: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.plan_changed()

    def plan_changed(self) -> None:
        """Check again whether losses are requested."""
        self._wanted = self._session.plan.asks(Kind.LOSS)

    def roots(self, tensors: Any) -> None:
        """Record the roots of a backward pass."""
        for root in given_tensors(tensors):
            self.add(TOTAL, self._unscaled(root), self._phase.train)

    def is_number(self, loss: Any) -> bool:
        """Return whether a loss is one plain number in host memory, which is cheap to read."""
        return (self._wanted and type(loss) is torch.Tensor and loss.is_cpu and not self._scaled
                and loss.numel() == 1 and loss.is_floating_point())

    def take_number(self, path: str, number: float) -> None:
        """Record one value of a loss in the current step."""
        losses = self._phase.train.losses
        total, count = losses.get(path, _NO_VALUES)
        losses[path] = total + number, count + 1
        if path == TOTAL or not self._session.seen.loss:
            self._session.saw_loss(number)

    def scaled(self, outputs: Any, scaled: Any) -> None:
        """Remember losses before a gradient scaler multiplied them."""
        if isinstance(scaled, torch.Tensor) and isinstance(outputs, torch.Tensor):
            self._scaled = [*self._scaled[-_SCALED_LOSSES:], (scaled.detach(), outputs.detach())]
        elif isinstance(scaled, tuple | list) and isinstance(outputs, tuple | list):
            for output, item in zip(outputs, scaled, strict=False):
                self.scaled(output, item)

    def _unscaled(self, loss: torch.Tensor) -> torch.Tensor:
        # The newest first: addresses are reused.
        matches = (plain for scaled, plain in reversed(self._scaled) if scaled.data_ptr() == loss.data_ptr())
        return next(matches, loss)

    def add(self, path: str, loss: torch.Tensor, buffer: StepBuffer) -> None:
        """Record one value of a loss: the mean of several elements. Complex losses are skipped."""
        if not self._wanted or not loss.is_floating_point():
            return
        training = buffer is self._phase.train
        value = loss.detach()
        if value.numel() != 1:
            value = value.float().mean()
        if value.device.type == "cpu":
            self._note(path, value.item(), buffer, training=training)
        else:
            # Reading a number from a device would make training wait for it.
            note = functools.partial(self._note, path, buffer=buffer, training=training)
            buffer.defer(fetch_number_later(value, note))

    def _note(self, path: str, number: float, buffer: StepBuffer, *, training: bool) -> None:
        total, count = buffer.losses.get(path, (0.0, 0))
        buffer.losses[path] = (total + number, count + 1)
        if path == TOTAL or not self._session.seen.loss:
            self._session.saw_loss(number)
        if training and not math.isfinite(number):
            # A loss that arrives late from its device alarms a later step: by then everything is NaN.
            self._phase.allowance.alarm()
