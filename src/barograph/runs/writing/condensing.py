"""Files of buckets beside files of records, as a writer makes them once these are published."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from barograph.errors import DamagedChunk, ObjectExists, ObjectNotFound
from barograph.runs.format.curves_file import RECORD_COLUMNS, WORTHWHILE_POINTS, bucketed, curves_file, worthwhile
from barograph.runs.format.events import open_records
from barograph.runs.format.layout import ChunkName, CurvesName
from barograph.runs.format.proof import proved
from barograph.runs.writing.outbox import Published
from barograph.store.base import Store


class Condenser:
    """Remembers which files of records have no file of buckets yet, and makes them.

    Args:
        store: The run's.
        run_id: Of the run.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._due: deque[ChunkName] = deque()

    def add(self, file: Published) -> None:
        """Take note of a file that was published; small ones are read as fast as they are."""
        if file.rows >= WORTHWHILE_POINTS:
            self._due.append(file.name)

    def condense(self, files: list[Published], *, at_most: int | None = None) -> None:
        """Make what is due, and write it into `files`; those that are no longer among them are forgotten.

        Args:
            files: Of the writer.
            at_most: Files of buckets that are made now; None: all.

        Raises:
            StoreError: The store does not do what is asked; trying again is safe.
        """
        made = 0
        while self._due and (at_most is None or made < at_most):
            at = next((at for at, file in enumerate(files) if file.name == self._due[0]), None)
            if at is not None:
                files[at] = replace(files[at], curves=published_curves(self._store, files[at].name, self._run_id))
                made += 1
            self._due.popleft()


def published_curves(store: Store, name: ChunkName, run_id: str) -> tuple[tuple[CurvesName, int], ...]:
    """Publish the file of buckets of a file of records, and return its name and size; nothing where it is not worth it.

    Raises:
        StoreError: The store does not do what is asked; trying again is safe.
    """
    try:
        table = open_records(proved(store, str(name), name.digest), str(name)).read(
            columns=list(RECORD_COLUMNS), use_threads=False)
    except (DamagedChunk, ObjectNotFound, pa.ArrowException, OSError):
        return ()  # who compacts or reads it says so
    found = bucketed(table)
    if not worthwhile(found):
        return ()
    curves, data = curves_file(found, name, run_id)
    # The name says what the bytes are: if it is taken, an earlier try came through after all.
    with contextlib.suppress(ObjectExists):
        store.create(str(curves), data)
    return ((curves, len(data)),)


def names_beside(files: Sequence[Published]) -> list[str]:
    """Return the names of the files of buckets that belong to files."""
    return [str(name) for file in files for name, _ in file.curves]
