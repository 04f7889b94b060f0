"""Ctrl-C in long-running commands."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self


class Interrupts:
    """Handles Ctrl-C while watching: stops between two polls, or after the current one.

    A poll that is aborted would leave an inconsistent state. A second Ctrl-C aborts it anyway.

    Args:
        ignored: Leave Ctrl-C to the training in this process group, whose end we observe.

    Attributes:
        came: Whether Ctrl-C was pressed.
        in_the_middle: Whether a poll was aborted.
    """

    def __init__(self, *, ignored: bool) -> None:
        self.came = False
        self.in_the_middle = False
        self._ignored = ignored
        self._holding = False
        self._former: Any = None

    def __enter__(self) -> Self:
        # Background processes of shell scripts ignore interrupts and must continue to do so.
        wanted = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        if wanted and threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, signal.SIG_IGN if self._ignored else self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Delay Ctrl-C until the end of this block."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        self.end_of_poll()

    def end_of_poll(self) -> None:
        """Raise a delayed Ctrl-C now. Errors take precedence; call this to continue after one.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        if self.came:
            raise KeyboardInterrupt

    def _take(self, number: int, frame: object) -> None:
        if self._holding and not self.came:
            self.came = True
            return
        self.came = True
        self.in_the_middle = self._holding
        raise KeyboardInterrupt
