"""Signals that reach this process, forwarded to one that it started."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType, TracebackType
from typing import Self

from barograph.processes.local_process import LocalProcess

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_FROM_THE_TERMINAL = ("SIGINT", "SIGQUIT")


class ForwardedSignals:
    """Within the `with` block, signals that reach us and not the process are sent to it.

    Enter the block before you start the process: a signal that comes in between is sent once it has started. A signal
    that we ignore, as under nohup, stays ignored.
    """

    def __init__(self) -> None:
        self._process: LocalProcess | None = None
        self._early: list[int] = []
        self._former: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for name in _FORWARDED:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._forward)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)  # type: ignore[arg-type]

    def to(self, process: LocalProcess) -> None:
        """Forward to a process of our group, also what has come so far."""
        self._process = process
        for number in self._early:
            process.send(number)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        # What is typed at the terminal reaches every process of the foreground group, this one as well as us.
        if signal.Signals(number).name in _FROM_THE_TERMINAL and _in_foreground():
            return
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send(number)


def _in_foreground() -> bool:
    """Return whether our group is in the foreground of a terminal, also if all standard streams are redirected."""
    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False
