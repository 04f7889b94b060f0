"""Events of a watched run: the interface between the loop and its notifiers.

A notice is given at least once: a watcher that died between telling and remembering tells again. A
notifier that minds keeps the ids it has seen, as `FileNotifier` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from barograph.model.finding import Finding


class Event(StrEnum):
    """Kinds of events."""

    OPENED = "opened"
    CLOSED = "closed"
    ACTION = "action"
    """Something was done about a finding."""
    PROBLEM = "problem"
    """Something with the watching itself, not with the training."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell.

    Attributes:
        event: What happened.
        text: One sentence, for an action or a problem; "" where a finding opened or closed.
        finding: As it then stood; None for a problem.
    """

    event: Event
    text: str = ""
    finding: Finding | None = None


class Notifier(Protocol):
    """Tells somebody."""

    def notify(self, notice: Notice) -> None:
        """Tell; must return soon. What it raises is reported once, and the others are told all the same."""
        ...
