"""A folder of event files as TensorBoard reads it: made aside, and put in its place when it is whole."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import IO

from barograph.errors import BarographError, ExportError, StoreDenied, StoreFull
from barograph.wire.framing import framed_all
from barograph.wire.writing import first_event

EVENT_FILE = "tfevents"
"""Stands in the name of every file that TensorBoard takes for one of events."""


class EventFolders:
    """Event files, one in each folder below `out`.

    Args:
        out: Where they are to be.
        run_id: Of the run that they tell of. Its earlier files are replaced; others never are.
        began_unix: When the run began, which the files' names say, as TensorBoard's own do.

    Raises:
        ExportError: Events of something else are there.
        StoreDenied: It cannot be written.
    """

    def __init__(self, out: Path, *, run_id: str, began_unix: float) -> None:
        self._out = out
        self._run_id = run_id
        self._name = file_name(run_id, began_unix)
        self._began_unix = began_unix
        self._files: dict[str, IO[bytes]] = {}
        self.events: dict[str, int] = {}
        """Folder to how many events were written to it."""
        with mapped(out):
            found_of(out, run_id)
            out.parent.mkdir(parents=True, exist_ok=True)
            # Beside the place itself, so that putting it there is a rename.
            self._aside = Path(mkdtemp(prefix=f".{out.name}-", dir=out.parent))

    def write(self, folder: str, events: Sequence[bytes]) -> None:
        """Write events to the file of a folder."""
        if not events:
            return
        with mapped(self._out):
            file = self._files.get(folder)
            if file is None:
                path = self._aside / folder / self._name
                path.parent.mkdir(parents=True)
                file = self._files[folder] = path.open("wb")
                file.write(framed_all([first_event(self._began_unix)]))
            file.write(framed_all(events))
        self.events[folder] = self.events.get(folder, 0) + len(events)

    def publish(self) -> None:
        """Put the files in their places, in place of those that were written of this run before."""
        with mapped(self._out):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            stale = set(found_of(self._out, self._run_id))  # somebody may have come meanwhile
            # Who followed the run into this folder begins anew: these files end somewhere else.
            (self._out / state_name(self._run_id)).unlink(missing_ok=True)
            for folder in self._files:
                place = self._out / folder / self._name
                place.parent.mkdir(parents=True, exist_ok=True)
                (self._aside / folder / self._name).replace(place)
                stale.discard(place)
            for path in stale:
                path.unlink()

    def close(self) -> None:
        """Let go of everything that is not in its place."""
        for file in self._files.values():
            file.close()
        shutil.rmtree(self._aside, ignore_errors=True)


def file_name(run_id: str, began_unix: float) -> str:
    """Return the name of the event file of a run, the same in each folder."""
    return f"events.out.{EVENT_FILE}.{int(began_unix):010d}{_ours(run_id)}"


def state_name(run_id: str) -> str:
    """Return the name of the file that says how far the files of a run that is followed have come."""
    return f"{_ours(run_id)}.following.json"


def found_of(out: Path, run_id: str) -> list[Path]:
    """Return the event files of a run below a folder.

    Raises:
        ExportError: Events of something else are there, or it is a file.
    """
    if out.exists() and not out.is_dir():
        raise ExportError(f"{out} is a file; event files need a folder. Choose one with -o.")
    found = sorted(path for path in out.rglob(f"*{EVENT_FILE}*") if path.is_file())
    foreign = [path for path in found if not path.name.endswith(_ours(run_id))]
    if foreign:
        raise ExportError(f"{out} holds events that are not of this run ({foreign[0]}); nothing is overwritten. "
                          "Choose a folder of its own with -o.")
    return found


@contextlib.contextmanager
def mapped(out: Path) -> Iterator[None]:
    """Say of what the system refuses in this block that the folder cannot be written.

    Raises:
        StoreDenied, StoreFull: It cannot.
    """
    try:
        yield
    except OSError as error:
        if error.strerror is None or isinstance(error, BarographError):
            raise
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreDenied
        raise kind(f"{out} cannot be written: {error.strerror}.") from error


def _ours(run_id: str) -> str:
    return f".barograph.{run_id}"
