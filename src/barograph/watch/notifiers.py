"""Who is told of a finding: one narrow waist, and the notifiers that come with it.

A notice is given at least once: a watcher that died between telling and remembering tells again. A
notifier that minds keeps the ids it has seen, as `FileNotifier` does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.text import Text

from barograph.errors import StoreDenied, StoreUnavailable
from barograph.model.finding import Finding, Severity


class Event(StrEnum):
    """What there is to tell."""

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


_STYLES = {
    Severity.BREAKING: "bold red", Severity.COSTLY: "bold yellow", Severity.DOUBTFUL: "yellow", Severity.NOTE: "cyan",
}


class TerminalNotifier:
    """Writes findings to a terminal, as people read them."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)

    def notify(self, notice: Notice) -> None:
        """Write a few lines."""
        # Soft wrap leaves the width to the terminal, so that a piped line stays one line.
        self._console.print(text_of(notice), soft_wrap=True)


def text_of(notice: Notice) -> Text:
    """Return the notice as lines for a terminal: what, where and since when; the evidence; the remedy."""
    finding = notice.finding
    if finding is None or notice.event is Event.ACTION:
        return Text.assemble(("barograph ", "bold"), notice.text)
    where = "" if finding.worker in ("p0", "r") else f" ({finding.worker})"
    if notice.event is Event.CLOSED:
        return Text.assemble(("gone      ", "green"), f"{finding.code} {finding.rule}{where}: not seen since step "
                             f"{finding.last_step}")
    lines = Text.assemble(
        (f"{finding.severity.value:<10}", _STYLES[finding.severity]), (f"{finding.code} {finding.rule}", "bold"),
        f"{where} since step {finding.since_step}: {finding.message}",
    )
    for item in finding.evidence[:3]:
        lines.append(f"\n          {item.key or 'run'} at step {item.step}: {item.text}", "dim")
    lines.append("\n          do: ", "bold")
    lines.append(finding.remedy)
    return lines


class FileNotifier:
    """Appends one line of JSON for each event to a file on this machine; each event once, over restarts too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = {(line.get("event"), line.get("id"), line.get("text")) for line in self._lines()}

    def notify(self, notice: Notice) -> None:
        """Append a line.

        Raises:
            StoreDenied: The file may not be written.
            StoreUnavailable: It cannot be written now.
        """
        finding = notice.finding
        mark = (notice.event.value, finding.id if finding else "", notice.text)
        if mark in self._seen:
            return
        line = {"event": mark[0], "id": mark[1], "text": mark[2], "finding": finding.to_json() if finding else None}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                # A line that a crash cut short must not swallow this one.
                file.write(("" if self._ends_whole() else "\n") + json.dumps(line, ensure_ascii=False) + "\n")
        except PermissionError as error:
            raise StoreDenied(f"The file of findings may not be written: {error}") from error
        except OSError as error:
            raise StoreUnavailable(f"The file of findings cannot be written: {error}") from error
        self._seen.add(mark)

    def _ends_whole(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(0, 2)
            if not file.tell():
                return True
            file.seek(-1, 2)
            return file.read(1) == b"\n"

    def _lines(self) -> list[dict[str, object]]:
        lines = []
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the torn last line of a writer that was killed
            if isinstance(entry, dict):
                lines.append(entry)
        return lines
