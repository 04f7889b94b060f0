"""The interface of a started process, whether it runs on this machine or on a Ray cluster."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Protocol


class HostLost(Exception):
    """The machine of a process is gone, or the object that manages the process there."""


@dataclass(frozen=True, slots=True)
class Output:
    """Whole lines that a process wrote.

    Attributes:
        out: To standard output.
        err: To standard error.
    """

    out: bytes = b""
    err: bytes = b""


class Process(Protocol):
    """A started process with captured output. Methods of a remote one raise `HostLost` if its machine is lost."""

    def poll(self) -> int | None:
        """Return the exit code, minus the signal's number if a signal ended it; None while it runs.

        Once this returns a code, `output` returns everything that is left.
        """
        ...

    def wait(self, timeout_secs: float | None = None) -> int | None:
        """Wait for the end. Return the exit code, or None if the process still runs after `timeout_secs`."""
        ...

    def output(self) -> Output:
        """Return the lines written since the last call."""
        ...

    def interrupt(self) -> None:
        """Send SIGINT to the process, as Ctrl-C does."""
        ...

    def kill(self) -> None:
        """Kill the process and its group."""
        ...

    def end(self, grace_secs: float) -> int:
        """Send SIGTERM to the process and its group, SIGKILL to what is left after `grace_secs`.

        Returns:
            The exit code.
        """
        ...


def ended_reason(exit_code: int) -> str:
    """Return how a process ended, as the end of a sentence.

    Example:
        >>> ended_reason(3), ended_reason(-9)
        ('ended with exit code 3', 'was ended by SIGKILL')
    """
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"
