"""Connection between an executor and its rules: messages in both directions, and the two ways it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Start = tuple[list[bytes], list[dict[str, Any] | None], dict[int, str]]
"""Initial data of rules: the pickled rules, their state, and why some are disabled."""


class RuleLost(Exception):
    """A rule ended its process or exceeded its time limit; there will be no answer.

    Attributes:
        what: What the running rule did.
        seat: Index of that rule; `IDLE` if none was running.
    """

    def __init__(self, what: str, seat: int) -> None:
        super().__init__(what)
        self.what, self.seat = what, seat


class Line(Protocol):
    """Connection to running rules. After its loss, each method raises `RuleLost` or `HostLost`."""

    def send(self, message: tuple[str, Any]) -> None:
        """Send a request."""
        ...

    def receive(self) -> Any:
        """Return the answer to the last request."""
        ...

    def close(self) -> None:
        """Terminate the other end."""
        ...


LineFactory = Callable[[Start, float], Line]
"""Starts rules somewhere, with a time limit in seconds for one step of a rule."""
