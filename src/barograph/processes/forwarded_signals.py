"""Signals that reach this process, forwarded to one that it started."""

from __future__ import annotations

import contextlib
import signal
from types import FrameType, TracebackType
from typing import Self

from barograph.processes.command import Command
from barograph.processes.local_process import DEVNULL, PIPE, Group, LocalProcess

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_WITNESS = ("/bin/sh", "-c", "ulimit -c 0; exec cat")
"""Ends with its standard input, or at the first signal; without a core file, which SIGQUIT would leave."""

_WITNESS_SECS = 0.3
"""Maximum delay of a signal to the whole group until it reaches the witness. Forwarding waits this long."""


class ForwardedSignals:
    """Within the `with` block, forwards to the process signals that reach only us.

    A signal may be sent to this process alone, or to its whole group, as a terminal, `timeout` and CI runners do. In
    the second case the process already got it. The system does not tell which it was; a witness does: a small process
    in our group to which no other process sends signals.

    Enter the block before you start the process: a signal in between is forwarded once it has started. A signal that we
    ignore, as under nohup, stays ignored.
    """

    def __init__(self) -> None:
        self._process: LocalProcess | None = None
        self._witness: LocalProcess | None = None
        self._early: list[int] = []
        self._former: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for name in _FORWARDED:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._forward)
        self._witness = _new_witness()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)  # type: ignore[arg-type]
        _dismiss(self._witness)

    def to(self, process: LocalProcess) -> None:
        """Forward signals to a process of our group, including those received so far."""
        self._process = process
        for number in self._early:
            process.send(number)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        elif not self._reached_the_group():
            self._process.send(number)

    def _reached_the_group(self) -> bool:
        # Another signal may arrive meanwhile; its handler runs within this one and uses the same witness.
        witness = self._witness
        if witness is None or witness.wait(_WITNESS_SECS) is None:
            return False
        if self._witness is witness:
            self._witness = _new_witness()
            _dismiss(witness)
        return True


def _dismiss(witness: LocalProcess | None) -> None:
    if witness is not None:
        witness.feed(b"")
        witness.wait()


def _new_witness() -> LocalProcess | None:
    with contextlib.suppress(OSError):
        return LocalProcess(Command(_WITNESS), stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, group=Group.OURS)
    return None  # without a shell, a signal to the group arrives twice
