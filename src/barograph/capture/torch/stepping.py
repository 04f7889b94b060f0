"""Determines whose step is running: optimizers can nest, and a gradient scaler may skip one."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Stepping:
    """Tracks the running optimizer step, from the hooks before and after it."""

    def __init__(self) -> None:
        self._running: Callable[[], Any] = _nobody
        self._stepped_in_scaler: set[int] = set()
        self._stand_ins: dict[int, Any] = {}
        self.are_nested = False
        """An optimizer has made another one step."""

    @property
    def running(self) -> bool:
        """Whether an optimizer's step is running."""
        return self._running() is not None

    def begins(self, optimizer: Any) -> bool:
        """Note that a step starts; False if another optimizer calls it, whose step counts instead."""
        outer = self._running()
        # A step that raised never ended: only the stack shows whether the other's is still running.
        if outer is not None and outer is not optimizer and _is_on_stack(outer):
            self.are_nested = True
            return False
        self._running = weakref.ref(optimizer)
        self._stepped_in_scaler.add(id(optimizer))
        return True

    def ended(self, optimizer: Any) -> bool:
        """Note that a step has ended; False if another optimizer called it."""
        if self._running() is not optimizer:
            return False
        self._running = _nobody
        return True

    def scaler_begins(self, optimizer: Any) -> None:
        """Note that a gradient scaler steps the optimizer."""
        self._stepped_in_scaler.discard(id(optimizer))

    def scaler_skipped(self, optimizer: Any) -> bool:
        """Return whether the scaler skipped the optimizer's step."""
        return id(optimizer) not in self._stepped_in_scaler

    @contextlib.contextmanager
    def standing_in(self, stand_in: Any, optimizer: Any) -> Iterator[None]:
        """Attribute a gradient scaler's calls with `stand_in` to the optimizer, in a `with` block."""
        self._stand_ins[id(stand_in)] = optimizer
        try:
            yield
        finally:
            del self._stand_ins[id(stand_in)]

    def stand_in_steps(self, stand_in: Any) -> None:
        """Note that a gradient scaler has stepped `stand_in`: the optimizer itself steps later."""
        self._stepped_in_scaler.add(id(self.behind(stand_in)))

    def behind(self, optimizer: Any) -> Any:
        """Return the optimizer that `stand_in` represents; itself if none."""
        return self._stand_ins.get(id(optimizer), optimizer)


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
