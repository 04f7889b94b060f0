"""Files of the data trace: one row per training batch, see `FORMAT.md`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barograph.errors import DamagedChunk
from barograph.model.manifest import FORMAT_VERSION, Worker
from barograph.runs.format.layout import TraceName
from barograph.runs.format.noted import noted_bytes, read_noted
from barograph.store.base import Store

_TEXT = pa.dictionary(pa.int32(), pa.string())

TRACE_SCHEMA = pa.schema([
    pa.field("attempt", pa.int32(), nullable=False),
    pa.field("worker", _TEXT, nullable=False),
    pa.field("part", pa.int64(), nullable=False),
    pa.field("tick", pa.int64(), nullable=False),
    pa.field("step", pa.int64(), nullable=False),
    pa.field("optimizer", _TEXT, nullable=False),
    pa.field("pass", pa.int32(), nullable=False),
    pa.field("loader", _TEXT, nullable=False),
    pa.field("size", pa.int64()),
    pa.field("first", pa.int64(), nullable=False),
    pa.field("count", pa.int32(), nullable=False),
    pa.field("loader_worker", pa.int32()),
    pa.field("order", _TEXT),
    pa.field("indices", pa.list_(pa.field("element", pa.int64(), nullable=False))),
    pa.field("named", pa.list_(pa.field("element", pa.int64(), nullable=False))),
    pa.field("names", pa.list_(pa.field("element", pa.string(), nullable=False))),
])

_TEXTS = ("worker", "optimizer", "loader", "order")
_OPTIONS: dict[str, Any] = {
    "version": "2.6",
    "compression": "zstd",
    "compression_level": 3,
    "use_dictionary": [*_TEXTS, "attempt", "part", "pass", "size", "count", "loader_worker"],
    "column_encoding": {
        **dict.fromkeys(("tick", "step", "first", "named.list.element"), "DELTA_BINARY_PACKED"),
        # Shuffled indices come within a hundredth of their entropy so, and deltas of them do not.
        "indices.list.element": "BYTE_STREAM_SPLIT",
        "names.list.element": "DELTA_BYTE_ARRAY",
    },
    "write_statistics": ["attempt", "worker", "step"],
    "write_page_checksum": True,
    "store_schema": False,
}


class TraceRow(NamedTuple):
    """One batch as stored in a file: fields as the columns, `samples` is `count`; -1 and "" represent null."""

    part: int
    tick: int
    step: int
    optimizer: str
    pass_number: int
    loader: str
    size: int
    first: int
    samples: int
    loader_worker: int
    order: str
    indices: NDArray[np.int64] | None
    names: tuple[tuple[int, str], ...]


def trace_bytes(rows: Sequence[TraceRow], worker: Worker, *, dropped_batches: int = 0) -> bytes:
    """Return a file with these rows and their worker."""
    count = len(rows)
    sizes, loader_workers = [row.size for row in rows], [row.loader_worker for row in rows]
    columns = {
        "attempt": pa.array(np.full(count, worker.attempt, np.int32)),
        "worker": pa.array([worker.name] * count).dictionary_encode(),
        "part": pa.array([row.part for row in rows], pa.int64()),
        "tick": pa.array([row.tick for row in rows], pa.int64()),
        "step": pa.array([row.step for row in rows], pa.int64()),
        "optimizer": _texts([row.optimizer for row in rows]),
        "pass": pa.array([row.pass_number for row in rows], pa.int32()),
        "loader": _texts([row.loader for row in rows]),
        "size": pa.array([None if size < 0 else size for size in sizes], pa.int64()),
        "first": pa.array([row.first for row in rows], pa.int64()),
        "count": pa.array([row.samples for row in rows], pa.int32()),
        "loader_worker": pa.array([None if item < 0 else item for item in loader_workers], pa.int32()),
        "order": _texts([row.order or None for row in rows]),
        "indices": _lists([row.indices for row in rows]),
        "named": pa.array([[number for number, _ in row.names] or None for row in rows],
                          TRACE_SCHEMA.field("named").type),
        "names": pa.array([[_text(name) for _, name in row.names] or None for row in rows],
                          TRACE_SCHEMA.field("names").type),
    }
    table = pa.table([columns[name].cast(TRACE_SCHEMA.field(name).type) for name in TRACE_SCHEMA.names],
                     schema=TRACE_SCHEMA)
    notes = {"format": FORMAT_VERSION, "run_id": worker.run_id, "dropped_batches": dropped_batches}
    return noted_bytes([table], TRACE_SCHEMA, notes, **_OPTIONS)


def read_trace(store: Store, name: TraceName, run_id: str) -> tuple[pa.Table, int]:
    """Return the rows of a file, and the number of batches its worker had dropped by then.

    Args:
        store: Store of the run.
        name: Name of the file.
        run_id: ID of the run.

    Raises:
        DamagedChunk: It is not what was published under that name in this run.
        ObjectNotFound: There is no such file.
        StoreError: The store does not respond.
    """
    table, notes = read_noted(store, name, run_id, columns=TRACE_SCHEMA.names, texts=_TEXTS,
                              what="a part of a data trace", schema=TRACE_SCHEMA)
    dropped_batches = notes.get("dropped_batches")
    if not isinstance(dropped_batches, int):
        raise DamagedChunk(f"The file does not say how many batches were dropped ({name}).")
    whose = set(zip(table["attempt"].to_pylist(), table["worker"].to_pylist(), strict=True))
    if not whose <= {(name.attempt, name.worker)}:
        raise DamagedChunk(f"The file has rows of another worker or attempt than its name says ({name}).")
    if not table["named"].combine_chunks().value_lengths().equals(table["names"].combine_chunks().value_lengths()):
        raise DamagedChunk(f"The file has names without numbers, or numbers without names ({name}).")
    return table, dropped_batches


def _texts(values: Sequence[str | None]) -> pa.Array:
    return pa.array([None if value is None else _text(value) for value in values], pa.string()).dictionary_encode()


def _text(value: str) -> str:
    # A file name may contain undecodable characters.
    return value.encode("utf-8", "replace").decode()


def _lists(values: Sequence[NDArray[np.int64] | None]) -> pa.Array:
    kind = TRACE_SCHEMA.field("indices").type
    lengths = np.array([0 if value is None else len(value) for value in values], np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    elements = np.concatenate([np.empty(0, np.int64), *(value for value in values if value is not None)])
    absent = np.array([value is None for value in values], bool)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(elements), type=kind, mask=pa.array(absent))
