"""Whose step is being made: one optimizer may call another, and a gradient scaler may call none."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any


class Stepping:
    """Knows the optimizer whose step runs, from the hooks before and after it."""

    def __init__(self) -> None:
        self._running: Callable[[], Any] = _nobody
        self._stepped_in_scaler: set[int] = set()

    @property
    def running(self) -> bool:
        """Whether an optimizer's step runs."""
        return self._running() is not None

    def begins(self, optimizer: Any) -> bool:
        """Note that a step begins; False if another optimizer makes it, whose step then is the step."""
        outer = self._running()
        # A step that raised never ended: whether the other's still runs, only the stack tells.
        if outer is not None and outer is not optimizer and _is_on_stack(outer):
            return False
        self._running = weakref.ref(optimizer)
        self._stepped_in_scaler.add(id(optimizer))
        return True

    def ended(self, optimizer: Any) -> bool:
        """Note that a step has ended; False if it was made by another optimizer."""
        if self._running() is not optimizer:
            return False
        self._running = _nobody
        return True

    def scaler_begins(self, optimizer: Any) -> None:
        """Note that a gradient scaler is asked to make the optimizer step."""
        self._stepped_in_scaler.discard(id(optimizer))

    def scaler_skipped(self, optimizer: Any) -> bool:
        """Return whether the scaler did not make it step."""
        return id(optimizer) not in self._stepped_in_scaler


def _nobody() -> None:
    return None


def _is_on_stack(optimizer: Any) -> bool:
    """Return whether a method of the optimizer is on this thread's stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_locals.get("self") is optimizer:
            return True
        frame = frame.f_back
    return False
