"""Recording of the files that a worker opened, with fingerprints computed in another thread."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Sequence

from barograph.model.origin import DataFile
from barograph.runs.format.fingerprints import WHOLE_BYTES, fingerprinted
from barograph.runs.state.origins import write_data
from barograph.store.base import Store

_ALL_BYTES = 2**30
"""Total bytes that are read completely; files after that are fingerprinted by head and tail."""
_FINISH_SECS = 3.0
_MOST_FILES = 4000
"""Maximum number of files, from child processes, polling and `open` together."""


class DataWriter:
    """Computes fingerprints in its own thread.

    Args:
        store: Store of the run, whose own files are not data.
        attempt: Attempt of the run.
        all_bytes: Total bytes that are read completely.
    """

    def __init__(self, store: Store, attempt: int, *, all_bytes: int = _ALL_BYTES) -> None:
        self._store = store
        self._attempt = attempt
        self._own = f"{store.url.rstrip('/')}/"
        self._room = all_bytes
        self._beyond = 0
        self._waiting: queue.Queue[DataFile | None] = queue.Queue()
        self._files: dict[str, DataFile] = {}
        self._written: tuple[int, int, int] | None = None
        self._thread: threading.Thread | None = None
        # Files are added by two threads: from messages, and from polling.
        self._adding = threading.Lock()

    def add(self, paths: Sequence[str], beyond: int | None = None) -> None:
        """Add newly opened files, and the total number of further openings; None: unchanged."""
        with self._adding:
            self._beyond = self._beyond if beyond is None else beyond
            for path in paths:
                if path in self._files or path.startswith(self._own) or len(self._files) >= _MOST_FILES:
                    continue
                file = _as_it_is(path)
                if file is None:
                    continue
                self._files[path] = file
                self._waiting.put(file)
            if self._thread is None and self._files:
                self._thread = threading.Thread(target=self._run, name="barograph-data", daemon=True)
                self._thread.start()

    def write(self, worker: str) -> None:
        """Write the known files, if there are new ones.

        Raises:
            StoreError: The store rejects it.
        """
        files = list(self._files.values())
        now = len(files), sum(bool(file.fingerprint or file.problem) for file in files), self._beyond
        if now != self._written and (files or self._beyond):
            write_data(self._store, self._attempt, worker, files, self._beyond)
            self._written = now

    def finish(self, worker: str, patience_secs: float = _FINISH_SECS) -> None:
        """Wait briefly for the last fingerprints, and write all; raises as `write`."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(patience_secs)
            for path, file in list(self._files.items()):
                if not (file.fingerprint or file.problem):
                    self._files[path] = DataFile(path, file.size_bytes, file.modified_ns,
                                                 problem="the training ended before the file was read")
        self.write(worker)

    def _run(self) -> None:
        while (file := self._waiting.get()) is not None:
            found = fingerprinted(file, whole_bytes=min(WHOLE_BYTES, self._room))
            self._room -= found.size_bytes if found.whole and found.fingerprint else 0
            self._files[file.path] = found


def _as_it_is(path: str) -> DataFile | None:
    try:
        status = os.stat(path)
    except OSError:
        return None  # a temporary file that is already gone
    return DataFile(path, status.st_size, status.st_mtime_ns)
