"""The line to rules on another machine: their process begins there as it does here, and is minded from beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from barograph.processes.process import HostLost
from barograph.processes.ray_cluster import Remote
from barograph.version import __version__
from barograph.watch.framing import Messages
from barograph.watch.line import RuleLost, Start
from barograph.watch.process_line import RuleProcess

Answer = tuple[bytes, str, int]
"""A packed reply; or nothing, what a rule did, and its position."""


class RuleHost:
    """Lives on the machine that the rules run on, and minds their process: so it is known who is to blame where an
    answer fails to come. While this answers, a rule is; where it does not, the machine."""

    def __init__(self) -> None:
        self._process: RuleProcess | None = None

    def begin(self, version: str, start: bytes, timeout_secs: float, search_path: Sequence[str]) -> Answer:
        """Begin the process.

        Args:
            version: Of the watcher's Barograph; this one must be the same.
            start, timeout_secs: As for `RuleProcess`.
            search_path: The watcher's; what of it is here is looked through after this machine's own.

        Raises:
            HostLost: The versions differ.
        """
        if version != __version__:
            raise HostLost(f"Barograph {__version__} is installed there, and {version} here.")
        try:
            self._process = RuleProcess(start, timeout_secs, search_path_here(search_path))
        except RuleLost as lost:
            return b"", lost.what, lost.seat
        return b"", "", 0

    def answer(self, message: bytes) -> Answer:
        """Hand over a packed message and return the answer."""
        if self._process is None:
            raise HostLost("Nothing was begun.")
        try:
            self._process.send(message)
            return self._process.receive(), "", 0
        except RuleLost as lost:
            return b"", lost.what, lost.seat


class FarLine:
    """The line to a process on a machine of the Ray cluster.

    Args:
        start: What the rules begin with.
        timeout_secs: Longest time a rule may take for one step.

    Raises:
        RuleLost: The process did not get ready.
        HostLost: The machine was lost.
    """

    def __init__(self, start: Start, timeout_secs: float) -> None:
        self._messages = Messages()
        self._host = Remote(RuleHost)
        self._wait: Any = None
        try:
            path = [item or os.getcwd() for item in sys.path]
            _checked(self._host.call("begin", __version__, self._messages.packed(start), timeout_secs, path))
        except (RuleLost, HostLost):
            self._host.close()
            raise

    def send(self, message: tuple[str, Any]) -> None:
        """Ask something; the answer is made meanwhile."""
        self._wait = self._host.begin("answer", self._messages.packed(message))

    def receive(self) -> Any:
        """Return the answer."""
        return self._messages.unpacked(_checked(self._wait()))

    def close(self) -> None:
        """End the process and what minds it."""
        self._host.close()


def search_path_here(theirs: Sequence[str]) -> list[str]:
    """Return where modules are looked for on this machine: its own places, and those of the watcher's that it has."""
    return [*sys.path, *(item for item in theirs if item not in sys.path and Path(item).exists())]


def _checked(answer: Answer) -> bytes:
    data, what, seat = answer
    if what:
        raise RuleLost(what, seat)
    return data
