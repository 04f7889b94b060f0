"""Handles SIGTERM as a request to stop training, as sent before a machine is reclaimed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Termination:
    """Handles SIGTERM unless the script does.

    Args:
        asked: Called at the first signal; returns whether it handles the signal, so that the process need not end at
            once. A second signal ends it.
    """

    def __init__(self, asked: Callable[[], bool]) -> None:
        self._asked = asked
        self._heard = self._listens = False
        try:
            # A script with its own handler, or that ignores the signal, has its reasons.
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._hear)
                self._listens = True
        except ValueError:
            return  # not the main thread, which receives all signals

    def close(self) -> None:
        """Restore the default handling."""
        if self._listens and signal.getsignal(signal.SIGTERM) == self._hear:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._listens = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        heard, self._heard = self._heard, True
        if heard or not self._asked():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


@contextmanager
def finished_first() -> Iterator[None]:
    """Finish the block before SIGTERM ends the process; a second signal ends it at once.

    A machine being reclaimed, or a launcher after another worker stopped, allows some seconds.
    """
    came: list[bool] = []

    def is_enough() -> bool:
        came.append(True)
        return True

    termination = Termination(is_enough)
    try:
        yield
    finally:
        termination.close()
        if came:
            os.kill(os.getpid(), signal.SIGTERM)
