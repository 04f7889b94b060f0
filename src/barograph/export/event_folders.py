"""A directory of TensorBoard event files, written to temporary files and published when complete."""

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
"""Part of the name of every TensorBoard event file."""


class EventFolders:
    """Event files, one in each directory below `out`.

    Args:
        out: Output directory.
        run_id: ID of the run. Its earlier files are replaced; others never are.
        began_unix: Start time of the run, used in the file names, as TensorBoard does.

    Raises:
        ExportError: The directory has events of something else.
        StoreDenied: The directory cannot be written.
    """

    def __init__(self, out: Path, *, run_id: str, began_unix: float) -> None:
        self._out = out
        self._run_id = run_id
        self._name = file_name(run_id, began_unix)
        self._began_unix = began_unix
        self._files: dict[str, IO[bytes]] = {}
        self.events: dict[str, int] = {}
        """Directory to the number of events written."""
        with mapped(out):
            found_of(out, run_id)
            out.parent.mkdir(parents=True, exist_ok=True)
            # Beside the destination, so that publishing is a rename.
            self._aside = Path(mkdtemp(prefix=f".{out.name}-", dir=out.parent))

    def write(self, folder: str, events: Sequence[bytes]) -> None:
        """Write events to the file of a directory."""
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
        """Publish the files, replacing earlier ones of this run."""
        with mapped(self._out):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            stale = set(found_of(self._out, self._run_id))  # another process may have written meanwhile
            # A follower of the run in this directory starts over, because these files end elsewhere.
            (self._out / state_name(self._run_id)).unlink(missing_ok=True)
            for folder in self._files:
                place = self._out / folder / self._name
                place.parent.mkdir(parents=True, exist_ok=True)
                (self._aside / folder / self._name).replace(place)
                stale.discard(place)
            for path in stale:
                path.unlink()

    def close(self) -> None:
        """Delete everything that is not published."""
        for file in self._files.values():
            file.close()
        shutil.rmtree(self._aside, ignore_errors=True)


def file_name(run_id: str, began_unix: float) -> str:
    """Return the name of the event file of a run, the same in each directory."""
    return f"events.out.{EVENT_FILE}.{int(began_unix):010d}{_ours(run_id)}"


def state_name(run_id: str) -> str:
    """Return the name of the state file of a followed run."""
    return f"{_ours(run_id)}.following.json"


def found_of(out: Path, run_id: str) -> list[Path]:
    """Return the event files of a run below a directory.

    Raises:
        ExportError: It is a file, or has events of something else.
    """
    if out.exists() and not out.is_dir():
        raise ExportError(f"Event files need a directory; this is a file. Choose another with -o ({out}).")
    found = sorted(path for path in out.rglob(f"*{EVENT_FILE}*") if path.is_file())
    foreign = [path for path in found if not path.name.endswith(_ours(run_id))]
    if foreign:
        raise ExportError(f"The directory has events of something else, which are not overwritten: {foreign[0]}. "
                          f"Choose another directory with -o ({out}).")
    return found


@contextlib.contextmanager
def mapped(out: Path) -> Iterator[None]:
    """Convert operating-system errors in this block.

    Raises:
        StoreDenied, StoreFull: The directory cannot be written.
    """
    try:
        yield
    except OSError as error:
        if error.strerror is None or isinstance(error, BarographError):
            raise
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreDenied
        raise kind(f"Cannot write event files: {error.strerror} ({out}).") from error


def _ours(run_id: str) -> str:
    return f".barograph.{run_id}"
