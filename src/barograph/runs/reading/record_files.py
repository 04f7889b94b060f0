"""Reading the records files of a run one by one: verified, in order, and each row once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from barograph.errors import DamagedChunk, ObjectNotFound, StoreUnavailable
from barograph.runs.format.belonging import check_origin
from barograph.runs.format.events import open_records
from barograph.runs.format.layout import ChunkName
from barograph.runs.format.proof import proved
from barograph.runs.state.survey import Stream, Survey, survey
from barograph.store.base import Store

_TRIES = 5
_THREADS = min(4, os.cpu_count() or 1)

Found = TypeVar("Found")


class RecordFiles:
    """Reads the records files of a run. Damaged ones are listed in `damage`, and the rest is readable.

    Args:
        store: Store of the run.
        run_id: ID of the run.

    Raises:
        StoreError: The store cannot be read.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._last_chunks: dict[Stream, int] = {}
        self.survey: Survey = survey(store, self._last_chunks)
        self.damage: dict[str, str] = {}
        self._footers: dict[ChunkName, pq.FileMetaData] = {}

    def refresh(self) -> None:
        """List new files."""
        self.survey = survey(self._store, self._last_chunks)
        # Who follows a run for weeks must not remember each file that was made one with others.
        self._footers = {file: footer for file, footer in list(self._footers.items())
                         if str(file) in self.survey.named}

    def streams(self) -> list[Stream]:
        """Return attempts and workers with published records, in order."""
        return list(self.survey.chunks)

    def look(
        self,
        streams: Iterable[Stream],
        into: Callable[[ChunkName, pq.ParquetFile], Found],
        *,
        if_footer: Callable[[pq.FileMetaData], bool] | None = None,
        known: Mapping[ChunkName, Found] | None = None,
        beside: Collection[ChunkName] = (),
    ) -> list[tuple[ChunkName, Found]]:
        """Return the results of `into` for each file, in order; it is called from several threads.

        Args:
            streams: Streams of the files.
            into: Reads one file.
            if_footer: Returns for a known footer whether to read the file.
            known: Earlier results; files never change, so these are not read again.
            beside: Files to skip.

        Raises:
            StoreError: The store cannot be read, or files keep changing.
        """
        wanted = list(streams)
        found: dict[ChunkName, Found | None] = dict(known or {})

        def visit(file: ChunkName) -> tuple[ChunkName, Found | None]:
            footer = self._footers.get(file)
            if footer is not None and if_footer is not None and not if_footer(footer):
                return file, None
            records = open_records(proved(self._store, str(file), file.digest), str(file))
            if footer is None:
                check_origin(records, file, self._run_id)
            self._footers[file] = records.metadata
            if if_footer is not None and not if_footer(records.metadata):
                return file, None
            try:
                return file, into(file, records)
            except (pa.ArrowException, OSError) as error:
                raise DamagedChunk(f"The file cannot be read as Parquet: {error} ({file}).") from error

        for _ in range(_TRIES):
            files = [file for stream in wanted for file in self.survey.files(stream, self.damage)
                     if file not in beside]
            if self._visit_all([file for file in files if file not in found], visit, found):
                return [(file, result) for file in files if (result := found[file]) is not None]
        raise StoreUnavailable("The files of the run kept changing while they were read. Try again "
                               f"({self._store.url}).")

    def _visit_all(
        self,
        files: list[ChunkName],
        visit: Callable[[ChunkName], tuple[ChunkName, Found | None]],
        found: dict[ChunkName, Found | None],
    ) -> bool:
        """Return whether all files could be read; otherwise a new listing is needed."""
        complete = True
        with _at_once(files, visit) as visited:
            for file, result in visited:
                try:
                    found[file] = result()[1]
                except DamagedChunk as error:
                    self.damage[str(file)] = str(error)
                    complete = False
                except ObjectNotFound:
                    complete = False
        if not complete:
            self.refresh()
        return complete


@contextmanager
def _at_once(
    files: Sequence[ChunkName], visit: Callable[[ChunkName], Found]
) -> Iterator[list[tuple[ChunkName, Callable[[], Found]]]]:
    """Yield files with pending results of their visits; several are visited concurrently."""
    if len(files) == 1:
        yield [(files[0], functools.partial(visit, files[0]))]  # a thread would take longer than it saves
        return
    pool = ThreadPoolExecutor(_THREADS)
    try:
        yield [(file, pool.submit(visit, file).result) for file in files]
    finally:
        # After an error of the store or an interrupt, do not start further files.
        pool.shutdown(wait=False, cancel_futures=True)
