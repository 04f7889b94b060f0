"""Appends findings to a file, one line of JSON per event, for other programs."""

from __future__ import annotations

import json
from pathlib import Path

from barograph.errors import StoreDenied, StoreUnavailable
from barograph.model.plain import plain
from barograph.watch.notices import Notice

_MARK = ("run", "event", "id", "text")
"""Entries that identify an event."""


class FileNotifier:
    """Appends one line of JSON for each event to a local file; each event once, also across restarts.

    Args:
        path: Path of the file; the file and its folder are created if missing.
        run: URL of the run, which each line contains, so that several runs can share a file.
    """

    def __init__(self, path: Path, run: str = "") -> None:
        self._path = path
        self._run = run
        self._seen = {tuple(line.get(name) for name in _MARK) for line in self._lines()}

    def notify(self, notice: Notice) -> None:
        """Append a line.

        Raises:
            StoreDenied: The file may not be written.
            StoreUnavailable: It cannot be written now.
        """
        finding = notice.finding
        mark = (self._run, notice.event.value, finding.id if finding else "", notice.text)
        if mark in self._seen:
            return
        body = {**dict(zip(_MARK, mark, strict=True)), "finding": finding.to_json() if finding else None}
        line = json.dumps(plain(body), ensure_ascii=False, allow_nan=False)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                # A line that a crash truncated must not merge with this one.
                file.write(("" if self._ends_whole() else "\n") + line + "\n")
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
                continue  # the truncated last line of a killed writer
            if isinstance(entry, dict):
                lines.append(entry)
        return lines
