"""Events of a watched run: the interface between the loop and its notifiers.

Delivery is at least once: a watcher that dies between notifying and saving its state notifies again. Notifiers can
deduplicate by ID, as `FileNotifier` does.
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
    """An action was requested or carried out because of a finding."""
    PROBLEM = "problem"
    """A problem of the watching itself, not of the training."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One notification.

    Attributes:
        event: Kind of event.
        text: One sentence, for an action or a problem; "" if a finding opened or closed.
        finding: The finding at the time of the event; None for a problem.
    """

    event: Event
    text: str = ""
    finding: Finding | None = None


class Notifier(Protocol):
    """Receives notices."""

    def notify(self, notice: Notice) -> None:
        """Process a notice; must return quickly. An exception is reported once and does not affect other notifiers."""
        ...
