"""The plain numbers of a run as buckets, from bucket files if there are any, otherwise from records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow.parquet as pq

from barograph.errors import DamagedChunk, ObjectNotFound, StoreUnavailable
from barograph.measures.buckets import BUCKET, Buckets
from barograph.runs.format.curves_file import (
    PLAIN_KINDS,
    RECORD_COLUMNS,
    SeriesBuckets,
    SeriesName,
    bucketed,
    read_curves,
    read_names,
)
from barograph.runs.format.layout import ChunkName, CurvesName
from barograph.runs.reading.query import Query, TextTest
from barograph.runs.reading.records import Records
from barograph.runs.state.survey import Stream, Survey
from barograph.store.base import Store

_TRIES = 5
_PLAIN = Query([TextTest("kind", PLAIN_KINDS.__contains__)])

Found = TypeVar("Found")
_Used = Mapping[Stream, Sequence[tuple[CurvesName, Sequence[ChunkName]]]]


class Condensed:
    """Reads series as buckets.

    Args:
        store: Store of the run.
        run_id: ID of the run.
        records: Records of the run.
    """

    def __init__(self, store: Store, run_id: str, records: Records) -> None:
        self._store = store
        self._run_id = run_id
        self._records = records
        self._curves: dict[CurvesName, SeriesBuckets] = {}
        self._names: dict[CurvesName, frozenset[SeriesName]] = {}
        self._of_files: dict[ChunkName, SeriesBuckets] = {}
        self._unreadable: frozenset[CurvesName] = frozenset()

    def of_worker(self, worker: str, query: Query | None = None) -> list[SeriesBuckets]:
        """Return a worker's numbers as buckets, in consecutive parts.

        Args:
            worker: Name of the worker.
            query: Filter for rows of records files, which contain other series, too. None: all rows, as one bucket per
                series and file; these results are cached.

        Raises:
            StoreError: The store cannot be read, or files keep disappearing.
        """
        used, read = self._looked_into(worker, query, self._all_counts)
        return [part for stream, files in used.items() for part in self._in_order(stream, files, read)]

    def names_of_worker(self, worker: str) -> frozenset[SeriesName]:
        """Return the series with numbers of a worker; raises as `of_worker`."""
        used, read = self._looked_into(worker, None, self._is_named)
        named = (self._names[curves] if curves in self._names else self._curves[curves].names
                 for files in used.values() for curves, _ in files)
        return frozenset().union(*named, *(found.names for found in read.values()))

    def _looked_into(
        self, worker: str, query: Query | None, counts: Callable[[CurvesName, int], bool]
    ) -> tuple[_Used, dict[ChunkName, SeriesBuckets]]:
        """Return the bucket files to use, by stream, and the results from records files.

        Args:
            worker, query: As in `of_worker`.
            counts: Returns whether a bucket file of an attempt can be used.
        """
        for _ in range(_TRIES):
            seen = self._records.survey
            streams = [stream for stream in self._records.streams() if stream[1] == worker]
            used = {stream: list(self._usable(stream, seen, counts)) for stream in streams}
            covered = {file for curves in used.values() for _, files in curves for file in files}
            read = dict(self._read(streams, query, covered))
            if self._records.survey is seen:
                self._forget_gone(seen)
                return used, read
        raise StoreUnavailable("The files of the run kept changing while they were read. Try again "
                               f"({self._store.url}).")

    def _forget_gone(self, seen: Survey) -> None:
        there = {name for curves in seen.curves.values() for name in curves}
        self._curves = {name: found for name, found in self._curves.items() if name in there}
        self._names = {name: found for name, found in self._names.items() if name in there}
        self._unreadable &= there

    def _read(
        self, streams: Sequence[Stream], query: Query | None, covered: Collection[ChunkName]
    ) -> list[tuple[ChunkName, SeriesBuckets]]:
        several = self._records.superseding() is not None

        def look(name: ChunkName, file: pq.ParquetFile) -> SeriesBuckets:
            table = (query or _PLAIN).rows(file, RECORD_COLUMNS)
            table = self._records.counting(table, name.attempt) if several else table
            return bucketed(table) if query is not None else bucketed(table, most_buckets=1)

        if query is not None:
            return self._records.look(streams, look, if_footer=query.may_be_in, beside=covered)
        # A later attempt changes which rows of an earlier one count.
        known = {} if several else self._of_files
        found = self._records.look(streams, look, known=known, beside=covered)
        # Drop results of files that were merged meanwhile.
        others = {name: parts for name, parts in known.items() if (name.attempt, name.worker) not in streams}
        self._of_files = {} if several else {**others, **dict(found)}
        return found

    def _in_order(
        self, stream: Stream, used: Sequence[tuple[CurvesName, Sequence[ChunkName]]],
        read: dict[ChunkName, SeriesBuckets],
    ) -> Iterator[SeriesBuckets]:
        parts = [(curves.first, self._curves[curves]) for curves, _ in used]
        parts += [(name.first, found) for name, found in read.items() if (name.attempt, name.worker) == stream]
        return (found for _, found in sorted(parts, key=lambda part: part[0]))

    def _usable(
        self, stream: Stream, seen: Survey, counts: Callable[[CurvesName, int], bool]
    ) -> Iterator[tuple[CurvesName, Sequence[ChunkName]]]:
        """Yield bucket files that replace records files all of whose rows count, with these files."""
        files = seen.files(stream, self._records.damaged)
        begins = {file.first: at for at, file in enumerate(files)}
        done = -1
        for curves in seen.curves.get(stream, ()):
            at = begins.get(curves.first)
            if at is None or curves.first <= done:
                continue
            tiled = list(_tiled(files[at:], curves))
            if tiled and counts(curves, stream[0]):
                done = curves.last
                yield curves, tiled

    def _all_counts(self, curves: CurvesName, attempt: int) -> bool:
        """Return whether a file of buckets can be read, and no later attempt supersedes anything in it."""
        found = self._once(self._curves, curves, read_curves)
        superseding = self._records.superseding()
        if found is None or superseding is None:
            return found is not None
        for code, name in enumerate(found.names):
            limit = superseding.limit(attempt, name.optimizer)
            if limit is not None and int(found.buckets["last_step"][found.codes == code].max()) >= limit:
                return False
        return True

    def _is_named(self, curves: CurvesName, attempt: int) -> bool:
        """Return whether the series of a bucket file are known, and all of it counts."""
        if curves in self._curves or self._records.superseding() is not None:
            return self._all_counts(curves, attempt)
        return self._once(self._names, curves, read_names) is not None

    def _once(
        self, kept: dict[CurvesName, Found], curves: CurvesName, read: Callable[[Store, CurvesName, str], Found]
    ) -> Found | None:
        """Return the cached content of a bucket file; None if it cannot be read."""
        if curves in self._unreadable:
            return None
        if curves not in kept:
            try:
                kept[curves] = read(self._store, curves, self._run_id)
            except DamagedChunk:
                self._unreadable |= {curves}  # `barograph doctor` reports it; nothing is lost
                return None
            except ObjectNotFound:
                return None
        return kept[curves]


def _tiled(files: Sequence[ChunkName], curves: CurvesName) -> Iterator[ChunkName]:
    """Yield the files that together are the chunks of `curves`; nothing if a chunk is missing or superfluous."""
    expected, found = curves.first, []
    for file in files:
        if file.first != expected or file.last > curves.last:
            return
        found.append(file)
        if file.last == curves.last:
            yield from found
            return
        expected = file.last + 1


def only(
    parts: Sequence[SeriesBuckets], *, kind: str, path: str, mode: str | None, optimizer: str | None
) -> Buckets | None:
    """Return the buckets of one series; None if several match, whose points may alternate.

    Args:
        parts: Buckets of one worker.
        kind, path: Kind and path of the series.
        mode, optimizer: Mode and optimizer; None: any.
    """
    found, names = [], set()
    for part in parts:
        for code, name in enumerate(part.names):
            fits = (name.kind, name.path) == (kind, path) and mode in (None, name.mode)
            if fits and optimizer in (None, name.optimizer):
                names.add(name)
                found.append(part.buckets[part.codes == code])
    if len(names) > 1:
        return None
    return np.concatenate(found) if found else np.empty(0, BUCKET)


def each(parts: Sequence[SeriesBuckets], *, kind: str, paths: Collection[str]) -> dict[SeriesName, Buckets]:
    """Return the buckets of each series of a kind.

    Args:
        parts: Buckets of one worker.
        kind: The kind.
        paths: Only these paths.
    """
    found: dict[SeriesName, list[Buckets]] = {}
    for part in parts:
        order = np.argsort(part.codes, kind="stable")
        codes = part.codes[order]
        for code, name in enumerate(part.names):
            if name.kind == kind and name.path in paths:
                first, stop = np.searchsorted(codes, (code, code + 1))
                found.setdefault(name, []).append(part.buckets[order[first:stop]])
    return {name: np.concatenate(several) for name, several in found.items()}
