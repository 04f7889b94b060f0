"""Checks that a records file belongs to this run, and to the worker, attempt and chunks in its name.

The digest in a name verifies the bytes, but not their origin: a file of another run, or one renamed to another
worker, has a correct digest, too. Such a file is damage and is never read.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from barograph.errors import DamagedChunk
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.runs.format.codec import notes_of
from barograph.runs.format.events import open_records
from barograph.runs.format.layout import ChunkName
from barograph.runs.format.proof import proved
from barograph.runs.format.schema import SCHEMA
from barograph.store.base import Store

_WORDS = {"kind": frozenset(map(str, Kind)), "mode": frozenset(map(str, Mode))}


def open_published(store: Store, name: ChunkName, run_id: str) -> pq.ParquetFile:
    """Open a records file and verify that its rows match its name.

    Args:
        store: Store of the run.
        name: Name of the file.
        run_id: ID of the run; "": unknown. A file without run ID is accepted in any run.

    Raises:
        DamagedChunk: The file is not what was published under this name in this run.
        ObjectNotFound: There is no such file.
        StoreError: The store does not respond.
    """
    records = open_records(proved(store, str(name), name.digest), str(name))
    check_origin(records, name, run_id)
    return records


def check_origin(records: pq.ParquetFile, name: ChunkName, run_id: str) -> None:
    """Raise DamagedChunk if a file belongs to another run, worker, attempt or chunk than its name and folder say.

    An unknown kind or mode is damage, too.
    """
    noted = notes_of(records.metadata.metadata, str(name)).run_id
    if noted and run_id and noted != run_id:
        raise DamagedChunk(f"The file belongs to another run: {noted} instead of {run_id} ({name}).")
    if not records.metadata.num_rows:
        return
    _check_words(records, name)
    first, last = _extremes(records, "chunk")
    mine = _extremes(records, "attempt") == (name.attempt,) * 2 and _extremes(records, "worker") == (name.worker,) * 2
    if not (mine and name.first <= first and last <= name.last):
        raise DamagedChunk(f"The file has rows of another worker, attempt or chunk than its name says ({name}).")


def _check_words(records: pq.ParquetFile, name: ChunkName) -> None:
    table = records.read(columns=list(_WORDS), use_threads=False)
    for column, known in _WORDS.items():
        for part in table[column].chunks:
            if known.issuperset(part.dictionary.to_pylist()):
                continue
            # A dictionary may have values that no row uses.
            for word in sorted(set(part.unique().to_pylist()) - known):
                raise DamagedChunk(f'The file has rows of an unknown {column}, "{word}" ({name}).')


def _extremes(records: pq.ParquetFile, column: str) -> tuple[Any, Any]:
    index = SCHEMA.get_field_index(column)
    groups = (records.metadata.row_group(group) for group in range(records.metadata.num_row_groups))
    chunks = [group.column(index) for group in groups]
    found = [chunk.statistics for chunk in chunks if chunk.path_in_schema == column]
    if len(found) == len(chunks) and all(item is not None and item.has_min_max for item in found):
        return min(item.min for item in found), max(item.max for item in found)
    # Another program wrote the file, without the statistics.
    values = records.read(columns=[column], use_threads=False)[column]
    plain = pc.min_max(values.cast(SCHEMA.field(column).type.value_type if column == "worker" else values.type))
    return plain["min"].as_py(), plain["max"].as_py()
