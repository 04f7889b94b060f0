"""The rows of a run, each once, without superseded ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from barograph.errors import DamagedChunk, ObjectNotFound, StoreUnavailable, UnknownWorker, nearest
from barograph.model.key import Key, Kind
from barograph.runs.format.events import dictionary_column
from barograph.runs.format.layout import ENDINGS, ChunkName, metadata_name
from barograph.runs.format.metadata import first_steps_from_bytes
from barograph.runs.format.schema import SCHEMA
from barograph.runs.reading.beginnings import Beginning, beginning_in, supersession_from
from barograph.runs.reading.query import Query
from barograph.runs.reading.record_files import RecordFiles
from barograph.runs.reading.supersession import Supersession
from barograph.runs.reading.view import worker_order
from barograph.runs.state.survey import Stream, Survey
from barograph.store.base import Store

_TRIES = 5

Found = TypeVar("Found")


class Records:
    """Runs queries over all files of a run.

    Args:
        store: Store of the run.
        run_id: ID of the run.

    Raises:
        StoreError: The store cannot be read.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._files = RecordFiles(store, run_id)
        self._supersession: tuple[Survey, Supersession] | None = None
        self._begun: dict[ChunkName, Beginning] = {}
        self._uncertain: list[str] = []
        self._keys: dict[ChunkName, frozenset[Key]] = {}
        self._all_keys: frozenset[Key] = frozenset()
        self._optimizers: dict[ChunkName, frozenset[str]] = {}

    @property
    def survey(self) -> Survey:
        """The last survey of the run."""
        return self._files.survey

    @property
    def damage(self) -> tuple[str, ...]:
        """Unreadable files so far, one sentence each."""
        files = self._files
        conflicts = (text for name in files.streams() for text in files.survey.conflict_damage(name, files.damage))
        return (*files.damage.values(), *conflicts, *self._uncertain)

    @property
    def damaged(self) -> Collection[str]:
        """Names of unreadable files so far."""
        return self._files.damage

    def refresh(self) -> None:
        """List new files."""
        self._files.refresh()

    def streams(self) -> list[Stream]:
        """Return attempts and workers with published records, in order."""
        return self._files.streams()

    def look(
        self, streams: Sequence[Stream], into: Callable[[ChunkName, pq.ParquetFile], Found], *,
        if_footer: Callable[[pq.FileMetaData], bool] | None = None, known: Mapping[ChunkName, Found] | None = None,
        beside: Collection[ChunkName] = (),
    ) -> list[tuple[ChunkName, Found]]:
        """Return the results of `into` for each file; arguments and errors as in `RecordFiles.look`. See also
        `counting`."""
        return self._files.look(streams, into, if_footer=if_footer, known=known, beside=beside)

    def workers(self) -> list[str]:
        """Return the workers with published records."""
        return sorted({worker for _, worker in self._files.streams()}, key=worker_order)

    def by_worker(self, query: Query, columns: Sequence[str], worker: str | None = None) -> dict[str, list[pa.Table]]:
        """Return the rows of a query: worker to consecutive tables.

        Args:
            query: The query.
            columns: Only these columns.
            worker: Only this worker; None: all.

        Raises:
            UnknownWorker: It has published no records.
            StoreError: The store cannot be read.
        """
        for _ in range(_TRIES):
            attempts = self._attempts()
            tables = self._by_worker(query, columns, worker)
            if self._attempts() == attempts:
                return tables
        raise StoreUnavailable("New attempts kept starting while the run was read. Try again.")

    def _by_worker(self, query: Query, columns: Sequence[str], worker: str | None) -> dict[str, list[pa.Table]]:
        several = len(self._attempts()) > 1
        # These columns decide which rows count; with a single attempt they are not needed.
        read = tuple(dict.fromkeys((*columns, "step", "optimizer", "mode"))) if several else tuple(columns)
        found = self._files.look(
            self._streams(worker), lambda _, file: query.rows(file, read), if_footer=query.may_be_in
        )
        tables: dict[str, list[pa.Table]] = {}
        for name, table in found:
            counting = self.counting(table, name.attempt) if several else table
            tables.setdefault(name.worker, []).append(counting.select(list(columns)))
        return {name: tables[name] for name in sorted(tables, key=worker_order)}

    def table(self, query: Query, columns: Sequence[str], worker: str | None = None) -> pa.Table:
        """Return the rows of a query for all workers; arguments and errors as in `by_worker`."""
        empty = pa.schema([SCHEMA.field(name) for name in columns]).empty_table()
        found = self.by_worker(query, columns, worker)
        tables = [table for tables in found.values() for table in tables]
        return pa.concat_tables([empty, *tables]).unify_dictionaries().combine_chunks()

    def known_keys(self) -> frozenset[Key]:
        """Return all keys."""
        found = self._files.look(self._files.streams(), lambda _, file: _keys_in(file), known=self._keys)
        if len(found) != len(self._keys) or not all(name in self._keys for name, _ in found):
            self._keys = dict(found)
            self._all_keys = frozenset().union(*self._keys.values())
        return self._all_keys

    def known_optimizers(self) -> frozenset[str]:
        """Return every optimizer with rows; "" also stands for evaluations and logged numbers."""
        found = self._files.look(self._files.streams(), lambda _, file: _optimizers_in(file), known=self._optimizers)
        self._optimizers = dict(found)
        return frozenset().union(*self._optimizers.values())

    def _streams(self, worker: str | None) -> list[Stream]:
        streams = self._files.streams()
        if worker is None:
            return streams
        mine = [stream for stream in streams if stream[1] == worker]
        if not mine:
            raise UnknownWorker(f'No worker "{worker}" has published records. {nearest(worker, self.workers())}')
        return mine

    def _attempts(self) -> set[int]:
        # One of which nothing is left but the last words may have superseded others all the same.
        return {attempt for attempt, _ in {*self._files.streams(), *self._ended()}}

    def counting(self, table: pa.Table, attempt: int) -> pa.Table:
        """Return the rows of an attempt that no later one supersedes.

        Args:
            table: Table with the columns `step`, `optimizer` and `mode`.
            attempt: Attempt of all rows.
        """
        if attempt == max(self._attempts()) or not len(table):
            return table
        table = table.unify_dictionaries()
        optimizers, modes = dictionary_column(table, "optimizer"), dictionary_column(table, "mode")
        counts = self._superseding().counts(attempt, optimizers, modes, table["step"].to_numpy())
        return table if counts.all() else table.filter(pa.array(counts))

    def superseding(self) -> Supersession | None:
        """Return the supersession of attempts; None if there is only one."""
        return self._superseding() if len(self._attempts()) > 1 else None

    def _superseding(self) -> Supersession:
        # Reading files may update the survey, so pass the survey that a result was computed from.
        if self._supersession is None or self._supersession[0] is not self._files.survey:
            supersession, self._uncertain = self._first_steps()
            self._supersession = self._files.survey, supersession
        return self._supersession[1]

    def _first_steps(self) -> tuple[Supersession, list[str]]:
        first = min(self._attempts())
        later = [stream for stream in self._files.streams() if stream[0] > first]
        self._begun = dict(self._files.look(later, beginning_in, known=self._begun))
        # A worker without metadata file and readable records never existed: a foreign file.
        declared = {(attempt, worker) for _, worker, attempt in self._files.survey.metadata}
        beginnings: dict[Stream, list[Beginning]] = {stream: [] for stream in later if stream in declared}
        for name, beginning in self._begun.items():
            beginnings.setdefault((name.attempt, name.worker), []).append(beginning)
        for attempt, worker in self._ended():
            if attempt > first and not any(item.certain for item in beginnings.get((attempt, worker), ())):
                beginnings.setdefault((attempt, worker), []).extend(self._reported_at_end(attempt, worker))
        return supersession_from(beginnings)

    def _ended(self) -> set[Stream]:
        return {(attempt, worker) for folder, worker, attempt in self._files.survey.metadata if folder == ENDINGS}

    def _reported_at_end(self, attempt: int, worker: str) -> list[Beginning]:
        name = metadata_name(ENDINGS, worker, attempt)
        try:
            firsts = first_steps_from_bytes(self._store.get(name), name)
        except (ObjectNotFound, DamagedChunk):
            return []
        return [] if firsts is None else [Beginning(firsts, certain=True)]


def _keys_in(file: pq.ParquetFile) -> frozenset[Key]:
    table = file.read(columns=["kind", "path"], use_threads=False).unify_dictionaries()
    kinds, paths = dictionary_column(table, "kind"), dictionary_column(table, "path")
    pairs = np.unique(kinds.codes * len(paths.texts) + paths.codes).tolist()
    count = len(paths.texts)
    return frozenset(Key(Kind(kinds.texts[pair // count]), paths.texts[pair % count]) for pair in pairs)


def _optimizers_in(file: pq.ParquetFile) -> frozenset[str]:
    return frozenset(file.read(columns=["optimizer"], use_threads=False)["optimizer"].unique().to_pylist())
