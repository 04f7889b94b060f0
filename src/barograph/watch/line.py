"""Connection between an executor and its rules: messages in both directions, and the two ways it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Start = tuple[list[bytes], list[dict[str, Any] | None], dict[int, str]]
"""Initial data of rules: the pickled rules, their state, and why some are disabled."""


class RuleLost(Exception):
    """A rule ended its process, or takes too long: it will not answer.

    Attributes:
        what: That the rule at work did.
        seat: Position of that rule; `IDLE` where none was at work.
    """

    def __init__(self, what: str, seat: int) -> None:
        super().__init__(what)
        self.what, self.seat = what, seat


class Line(Protocol):
    """A line to rules at work. Where it is lost, each method raises `RuleLost` or `HostLost`."""

    def send(self, message: tuple[str, Any]) -> None:
        """Ask something."""
        ...

    def receive(self) -> Any:
        """Return the answer to what was asked last."""
        ...

    def close(self) -> None:
        """End what is at the other end."""
        ...


LineFactory = Callable[[Start, float], Line]
"""Begins rules somewhere. A rule may take that many seconds for one step."""
