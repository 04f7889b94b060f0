"""Writing of bucket files after the records files are published."""

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
    """Writes bucket files for records files that have none yet.

    Args:
        store: Store of the run.
        run_id: ID of the run.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._due: deque[ChunkName] = deque()

    def add(self, file: Published) -> None:
        """Add a published file; small ones need no buckets."""
        if file.rows >= WORTHWHILE_POINTS:
            self._due.append(file.name)

    def condense(self, files: list[Published], *, at_most: int | None = None) -> None:
        """Write due bucket files and add them to `files`; forget files that are no longer there.

        Args:
            files: Files of the writer.
            at_most: Number of bucket files to write now; None: all.

        Raises:
            StoreError: An operation failed; retrying is safe.
        """
        made = 0
        while self._due and (at_most is None or made < at_most):
            at = next((at for at, file in enumerate(files) if file.name == self._due[0]), None)
            if at is not None:
                files[at] = replace(files[at], curves=published_curves(self._store, files[at].name, self._run_id))
                made += 1
            self._due.popleft()


def published_curves(store: Store, name: ChunkName, run_id: str) -> tuple[tuple[CurvesName, int], ...]:
    """Publish the bucket file of a records file, and return its name and size; None if it is not worthwhile.

    Raises:
        StoreError: An operation failed; retrying is safe.
    """
    try:
        table = open_records(proved(store, str(name), name.digest), str(name)).read(
            columns=list(RECORD_COLUMNS), use_threads=False)
    except (DamagedChunk, ObjectNotFound, pa.ArrowException, OSError):
        return ()  # reported when it is merged or read
    found = bucketed(table)
    if not worthwhile(found):
        return ()
    curves, data = curves_file(found, name, run_id)
    # The name has the digest: if it exists, an earlier try succeeded after all.
    with contextlib.suppress(ObjectExists):
        store.create(str(curves), data)
    return ((curves, len(data)),)


def names_beside(files: Sequence[Published]) -> list[str]:
    """Return the names of the bucket files of some files."""
    return [str(name) for file in files for name, _ in file.curves]
