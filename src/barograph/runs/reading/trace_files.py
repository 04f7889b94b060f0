"""Reading the files of the data trace: verified, each row once, without superseded ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from barograph.errors import DamagedChunk, ObjectNotFound, StoreUnavailable
from barograph.runs.format.layout import TRACE, TraceName
from barograph.runs.format.trace_file import TRACE_SCHEMA, read_trace
from barograph.runs.reading.supersession import Supersession
from barograph.runs.reading.view import worker_order
from barograph.store.base import Store

_TRIES = 5


class TraceFiles(NamedTuple):
    """Content of the files.

    Attributes:
        table: Rows of `TRACE_SCHEMA`, by attempt and worker.
        damage: Unreadable files, one sentence each.
        dropped_batches: Number of batches that were not recorded.
    """

    table: pa.Table
    damage: tuple[str, ...]
    dropped_batches: int


def read_files(store: Store, run_id: str) -> TraceFiles:
    """Return the content of the data trace of a run.

    Raises:
        StoreError: The store cannot be read, or files keep changing.
    """
    for _ in range(_TRIES):
        try:
            return _read_once(store, run_id)
        except ObjectNotFound:
            continue  # the newest file was replaced meanwhile
    raise StoreUnavailable(f"The files of the run kept changing while they were read. Try again ({store.url}).")


def counting_rows(table: pa.Table, superseding: Supersession | None) -> pa.Table:
    """Return the rows that are not superseded; None for a single attempt."""
    if superseding is None or not len(table):
        return table
    attempts, steps = table["attempt"].to_numpy(), table["step"].to_numpy()
    optimizers = np.array(table["optimizer"].to_pylist(), object)
    counting = np.ones(len(table), bool)
    for attempt in np.unique(attempts).tolist():
        for optimizer in set(optimizers[attempts == attempt].tolist()):
            limit = superseding.limit(attempt, optimizer)
            if limit is not None:
                counting &= (attempts != attempt) | (optimizers != optimizer) | (steps < limit)
    return table.filter(pa.array(counting))


def _read_once(store: Store, run_id: str) -> TraceFiles:
    streams: dict[tuple[int, str], list[TraceName]] = {}
    for item in store.list(TRACE):
        if name := TraceName.from_name(item.name):
            streams.setdefault((name.attempt, name.worker), []).append(name)
    tables, damage, dropped = [TRACE_SCHEMA.empty_table()], list[str](), 0
    for stream in sorted(streams, key=lambda stream: (stream[0], worker_order(stream[1]))):
        found = _read_stream(store, run_id, streams[stream], damage)
        tables += [table for table, _ in found]
        dropped += max((count for _, count in found), default=0)
    return TraceFiles(pa.concat_tables(tables), tuple(damage), dropped)


def _read_stream(
    store: Store, run_id: str, names: Sequence[TraceName], damage: list[str]
) -> list[tuple[pa.Table, int]]:
    """Return the files of one worker and attempt; if one is damaged, the files it was merged from may still exist."""
    good = list(names)
    while True:
        found = []
        for name in _apart(good):
            try:
                found.append(read_trace(store, name, run_id))
            except DamagedChunk as error:
                damage.append(str(error))
                good.remove(name)
                break
        else:
            return found


def _apart(names: Sequence[TraceName]) -> Iterator[TraceName]:
    """Yield the files to read: of overlapping ranges the longest."""
    last = -1
    for name in sorted(names, key=lambda name: (name.first, -name.last, name.digest)):
        if name.first > last:
            yield name
            last = name.last
