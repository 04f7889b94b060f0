"""Connection to rules on another machine: an actor there starts and supervises their process."""

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

Reply = tuple[bytes, str, int]
"""A packed reply; or empty bytes, the failure of a rule, and the rule's index."""


class RuleHost:
    """Actor that supervises a rule process on its machine. It separates failures: while the actor replies, a missing
    answer is the rule's fault; otherwise the machine is lost."""

    def __init__(self) -> None:
        self._process: RuleProcess | None = None

    def begin(self, version: str, start: bytes, timeout_secs: float, search_path: Sequence[str]) -> Reply:
        """Start the process.

        Args:
            version: Barograph version of the watcher; must equal this machine's.
            start, timeout_secs: See `RuleProcess`.
            search_path: The watcher's; the entries that exist here are searched after this machine's own.

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

    def answer(self, message: bytes) -> Reply:
        """Send a packed message to the process and return the answer."""
        if self._process is None:
            raise HostLost("Nothing was begun.")
        try:
            self._process.send(message)
            return self._process.receive(), "", 0
        except RuleLost as lost:
            return b"", lost.what, lost.seat


class FarLine:
    """Connection to a process on a machine of the Ray cluster.

    Args:
        start: Initial data of the rules.
        timeout_secs: Time limit of a rule for one step.

    Raises:
        RuleLost: The process did not start.
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
        """Send a request; the process works on it meanwhile."""
        self._wait = self._host.begin("answer", self._messages.packed(message))

    def receive(self) -> Any:
        """Return the answer to the last request."""
        return self._messages.unpacked(_checked(self._wait()))

    def close(self) -> None:
        """Terminate the process and its actor."""
        self._host.close()


def search_path_here(theirs: Sequence[str]) -> list[str]:
    """Return the module search path on this machine: its own entries, then the watcher's that exist here."""
    return [*sys.path, *(item for item in theirs if item not in sys.path and Path(item).exists())]


def _checked(answer: Reply) -> bytes:
    data, what, seat = answer
    if what:
        raise RuleLost(what, seat)
    return data
