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
        asked: Called at the first; returns whether that is enough, and the process need not be ended at once. At the
            second it is.
    """

    def __init__(self, asked: Callable[[], bool]) -> None:
        self._asked = asked
        self._heard = self._listens = False
        try:
            # A script that has a handler of its own, or was told to ignore the signal, knows why.
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._hear)
                self._listens = True
        except ValueError:
            return  # not the main thread, and signals are heard there alone

    def close(self) -> None:
        """Hear no more of it."""
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
    """Have what is done within finished before SIGTERM ends the process; a second one ends it at once.

    A machine that is taken away, or a launcher whose other worker has stopped, gives some seconds for that.
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
