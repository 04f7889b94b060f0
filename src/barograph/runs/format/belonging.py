"""Whether a file of records is of this run, and of the worker, attempt and chunks that its name says.

The digest in a name proves the bytes, wherever they came from: a file of another run, or one that was given another
worker's name, is proved too. It is damage all the same, and never read.
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
    """Return a file of records, opened, whose rows are those that its name speaks of.

    Args:
        store: The run's.
        name: Of the file.
        run_id: Of the run; "": not known. A file that does not say of which run it is passes for any.

    Raises:
        DamagedChunk: It is not what was published under that name in this run.
        ObjectNotFound: There is none.
        StoreError: The store does not answer.
    """
    records = open_records(proved(store, str(name), name.digest), str(name))
    check_origin(records, name, run_id)
    return records


def check_origin(records: pq.ParquetFile, name: ChunkName, run_id: str) -> None:
    """Raise DamagedChunk where a file is of another run, worker, attempt or chunk than its name and place say.

    So it is where rows are of a kind or mode that nobody here knows: what they are of could not be told.
    """
    said = notes_of(records.metadata.metadata, str(name)).run_id
    if said and run_id and said != run_id:
        raise DamagedChunk(f"The file belongs to another run: {said} instead of {run_id} ({name}).")
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
            # What a dictionary holds and no row has is no row's.
            for word in sorted(set(part.unique().to_pylist()) - known):
                raise DamagedChunk(f'The file has rows of an unknown {column}, "{word}" ({name}).')


def _extremes(records: pq.ParquetFile, column: str) -> tuple[Any, Any]:
    index = SCHEMA.get_field_index(column)
    groups = (records.metadata.row_group(group) for group in range(records.metadata.num_row_groups))
    chunks = [group.column(index) for group in groups]
    found = [chunk.statistics for chunk in chunks if chunk.path_in_schema == column]
    if len(found) == len(chunks) and all(item is not None and item.has_min_max for item in found):
        return min(item.min for item in found), max(item.max for item in found)
    # Another program wrote the file: it stands for what is in it, not for how.
    values = records.read(columns=[column], use_threads=False)[column]
    plain = pc.min_max(values.cast(SCHEMA.field(column).type.value_type if column == "worker" else values.type))
    return plain["min"].as_py(), plain["max"].as_py()
