"""Event files that grow while a run is followed, with a state file for resuming.

Event files are written first, then the state file is replaced. A resumed export truncates what was written after the
last state file and writes it again, so that no event is duplicated after a crash.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from barograph.errors import ExportError
from barograph.export.event_folders import file_name, found_of, mapped, state_name
from barograph.machine.host_lock import HostLock
from barograph.store.whole_file import write_whole
from barograph.wire.events import event_from_message
from barograph.wire.framing import Record, framed_all, records_in
from barograph.wire.writing import first_event, restart_event

_FORMAT = 3


class LastingFolders:
    """Event files, one in each directory below `out`, that are appended to.

    Args:
        out: Output directory.
        run_id: ID of the run.
        began_unix: Start time of the run.

    Raises:
        ExportError: The directory has events of something else, or another process follows the run there.
        StoreDenied, StoreFull: The directory cannot be written.

    Attributes:
        notes: Data of the last `save`; {} if there is none: then the run's earlier files are deleted, and everything
            must be written.
        events: Directory to the number of events in its file.
    """

    def __init__(self, out: Path, *, run_id: str, began_unix: float) -> None:
        self._out = out
        self._name = file_name(run_id, began_unix)
        self._began_unix = began_unix
        self._metadata_file = out / state_name(run_id)
        self._sizes: dict[str, int] = {}
        self.events: dict[str, int] = {}
        self.notes: Mapping[str, Any] = {}
        self._waiting: dict[str, list[bytes]] = {}
        self._lock = HostLock(f"tensorboard {out.resolve()} {run_id}")
        if not self._lock.take():
            raise ExportError("Another process already follows this run into this directory. Choose another with -o "
                              f"({out}).")
        try:
            with mapped(out):
                found = found_of(out, run_id)
                out.mkdir(parents=True, exist_ok=True)
                if not self._went_on():
                    self._begin_anew(found)
        except BaseException:
            self.close()
            raise

    def has(self, folder: str) -> bool:
        """Return whether a directory has events, including unsaved ones."""
        return folder in self.events or folder in self._waiting

    def standing(self, folder: str, first: int) -> list[bytes]:
        """Return the events of a directory from step `first` on that no restart has superseded."""
        path = self._out / folder / self._name
        held = memoryview(path.read_bytes() if path.exists() else b"")
        written = [record.payload for record in records_in(held) if isinstance(record, Record)]
        standing: list[tuple[int, bytes]] = []
        for message in [*written, *(memoryview(event) for event in self._waiting.get(folder, ()))]:
            event = event_from_message(message)
            if event.restarts:
                standing = [item for item in standing if item[0] < event.step]
            elif event.values and event.step >= first:
                standing.append((event.step, bytes(message)))
        return [message for _, message in standing]

    def put(self, folder: str, event: bytes) -> None:
        """Add an event to the file of a directory with the next `save`."""
        self._waiting.setdefault(folder, []).append(event)

    def save(self, notes: Mapping[str, Any]) -> None:
        """Write the added events, then the state file.

        Args:
            notes: JSON data for resuming.

        Raises:
            ExportError: Another program changed the files meanwhile.
            StoreDenied, StoreFull: The files cannot be written.
        """
        if notes == self.notes and not self._waiting:
            return
        with mapped(self._out):
            for folder, events in self._waiting.items():
                self._append(folder, events)
            self._waiting = {}
            said = json.dumps({"format": _FORMAT, "bytes": self._sizes, "events": self.events, "notes": notes})
            write_whole(self._metadata_file, f"{_digest(said)}\n{said}\n".encode())
        self.notes = notes

    def close(self) -> None:
        """Release the lock on the directory."""
        self._lock.release()

    def _append(self, folder: str, events: list[bytes]) -> None:
        path, size = self._out / folder / self._name, self._sizes.get(folder, 0)
        if (path.stat().st_size if path.exists() else 0) != size:
            raise ExportError("Another program changed an event file while the run was followed. Follow the run again "
                              f"to write what is missing ({path}).")
        # TensorBoard treats the first session start in a directory as the training itself, and only later ones as
        # restarts.
        head = [] if size else [first_event(self._began_unix), restart_event(self._began_unix, 0)]
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one write: TensorBoard reads concurrently, and retries a record that is incomplete.
        data = framed_all([*head, *events])
        with path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._sizes[folder] = size + len(data)
        self.events[folder] = self.events.get(folder, 0) + len(events)

    def _went_on(self) -> bool:
        """Resume from the state file; return whether it matches the files."""
        said = self._said()
        if said is None or said["format"] != _FORMAT:
            return False
        sizes: dict[str, int] = said["bytes"]
        paths = {folder: self._out / folder / self._name for folder in sizes}
        if any(not path.is_file() or path.stat().st_size < sizes[folder] for folder, path in paths.items()):
            return False
        for folder, path in paths.items():
            if path.stat().st_size > sizes[folder]:
                os.truncate(path, sizes[folder])
        for path in self._out.rglob(self._name):
            if path not in paths.values():
                path.unlink()  # created after the last state file
        self._sizes, self.events, self.notes = sizes, said["events"], said["notes"]
        return True

    def _said(self) -> dict[str, Any] | None:
        """Return the contents of the state file; None if it is missing or invalid."""
        try:
            digest, said = self._metadata_file.read_text(encoding="utf-8").splitlines()
            return dict(json.loads(said)) if digest == _digest(said) else None
        except (FileNotFoundError, ValueError):
            return None

    def _begin_anew(self, found: list[Path]) -> None:
        self._metadata_file.unlink(missing_ok=True)
        for path in found:
            path.unlink()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
