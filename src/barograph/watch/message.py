"""A notice with a stable ID, as plain data, for sending."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barograph.model.finding import Finding, Severity, finding_from_json
from barograph.model.plain import plain
from barograph.watch.notices import Event, Notice


@dataclass(frozen=True, slots=True)
class Message:
    """One notice about one run.

    Attributes:
        id: ID of the event: the same in every try and in every watcher of the run.
        run: URL of the run.
        event: Kind of event.
        text: One sentence, for an action or a problem.
        finding: The finding at the time of the event; None for a problem.
        made_unix: Time of the notice.
    """

    id: str
    run: str
    event: Event
    text: str
    finding: Finding | None
    made_unix: float

    @property
    def severity(self) -> Severity | None:
        return self.finding.severity if self.finding else None

    @property
    def notice(self) -> Notice:
        """The notice, as on a terminal."""
        return Notice(self.event, self.text, self.finding)

    def body(self) -> dict[str, Any]:
        """Return strict JSON data with the entries of a line of the findings file."""
        body: dict[str, Any] = plain({
            "run": self.run, "event": self.event, "id": self.finding.id if self.finding else "", "text": self.text,
            "finding": self.finding.to_json() if self.finding else None,
        })
        return body

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data that `message_from_json` reads back."""
        return {"id": self.id, "run": self.run, "event": self.event.value, "text": self.text,
                "finding": self.finding.to_json() if self.finding else None, "made_unix": self.made_unix}


def message_of(notice: Notice, run: str, now_unix: float) -> Message:
    """Return the message for a notice about a run.

    Example:
        >>> message_of(Notice(Event.PROBLEM, "The store is away."), "runs/first", 0.0).id
        'problem-903423545aae'
    """
    finding = notice.finding
    if finding is not None and notice.event in (Event.OPENED, Event.CLOSED):
        name = f"{finding.id}.{notice.event.value}"
    else:
        digest = hashlib.sha256(notice.text.encode()).hexdigest()[:12]
        name = f"{finding.id}.{notice.event.value}-{digest}" if finding else f"{notice.event.value}-{digest}"
    return Message(name, run, notice.event, notice.text, finding, now_unix)


def message_from_json(data: Mapping[str, Any]) -> Message:
    """Return the message that `Message.to_json` wrote.

    Raises:
        KeyError, ValueError, TypeError: The data are invalid.
    """
    finding = finding_from_json(data["finding"]) if data["finding"] is not None else None
    return Message(data["id"], data["run"], Event(data["event"]), data["text"], finding, float(data["made_unix"]))
