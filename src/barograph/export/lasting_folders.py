"""Event files that grow while a run is followed, and a metadata file beside them that says how far they have come.

First the files are written, then the metadata file is replaced. Whoever goes on later cuts off what was written after
the last metadata file, and writes the same again: so nothing is there twice, however the one before ended.
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
    """Event files, one in each folder below `out`, to which events are added.

    Args:
        out: Where they are.
        run_id: Of the run that they tell of.
        began_unix: When it began.

    Raises:
        ExportError: Events of something else are there, or another process adds to these.
        StoreDenied, StoreFull: It cannot be written.

    Attributes:
        notes: What was handed to the last `save`; {} where there is nothing to go on from: what was written of the
            run before is gone then, and everything is to be written.
        events: Folder to how many events its file has.
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
            raise ExportError(f"Another process follows this run into {out}; leave it to it, or choose another folder "
                              "with -o.")
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
        """Return whether there are events in a folder, or will be once they are saved."""
        return folder in self.events or folder in self._waiting

    def standing(self, folder: str, first: int) -> list[bytes]:
        """Return the events of a folder with values of step `first` or later that no restart has superseded."""
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
        """Add an event to the file of a folder, once it is saved."""
        self._waiting.setdefault(folder, []).append(event)

    def save(self, notes: Mapping[str, Any]) -> None:
        """Write what was added, and then the metadata file.

        Args:
            notes: JSON data that whoever goes on finds.

        Raises:
            ExportError: Somebody else has changed the files meanwhile.
            StoreDenied, StoreFull: They cannot be written.
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
        """Let others add to them."""
        self._lock.release()

    def _append(self, folder: str, events: list[bytes]) -> None:
        path, size = self._out / folder / self._name, self._sizes.get(folder, 0)
        if (path.stat().st_size if path.exists() else 0) != size:
            raise ExportError(f"{path} was changed by something else while the run was followed. Follow it again: what "
                              "is missing is written then.")
        # TensorBoard takes the first session that starts in a folder for the training itself, and only those after it
        # for one that was resumed.
        head = [] if size else [first_event(self._began_unix), restart_event(self._began_unix, 0)]
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one piece: TensorBoard reads at the same time, and comes back for a record that is not whole.
        data = framed_all([*head, *events])
        with path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._sizes[folder] = size + len(data)
        self.events[folder] = self.events.get(folder, 0) + len(events)

    def _went_on(self) -> bool:
        """Take up what the metadata file says; return whether it is true of the files that are there."""
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
                path.unlink()  # begun after the last metadata file
        self._sizes, self.events, self.notes = sizes, said["events"], said["notes"]
        return True

    def _said(self) -> dict[str, Any] | None:
        """Return what the metadata file holds; None where there is none, or it is not as we wrote it."""
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
