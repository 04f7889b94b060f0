"""Merging of small records files, such that readers see every row once at any time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from barograph.errors import ObjectExists
from barograph.runs.format.codec import merged_notes, notes_of, parquet_bytes
from barograph.runs.format.events import dictionary_column, read_table
from barograph.runs.format.layout import ChunkName, digest_of
from barograph.runs.format.proof import proved
from barograph.runs.writing.outbox import Published
from barograph.store.base import Store

FILES_PER_LEVEL = 32
"""Files of one level that are merged into one of the next."""

COMPACTED_BYTES = 32 * 2**20
"""Largest merged file."""

COMPACTED_ROWS = 256 * 1024
"""Maximum rows of a merged file: merging takes about a kilobyte of memory a row."""

_WORTHWHILE_FILES = 4


def worth_compacting(files: Sequence[Published]) -> Sequence[Published]:
    """Return the oldest files to merge; empty if there is nothing to do.

    Files of one level are adjacent: level 0 as first published, level 1 merged from 32 of these, and
    so on, so each row is written once a level.

    Args:
        files: Files of one worker and attempt, in order.
    """
    levels = [_level(file.name) for file in files]
    start = stop = 0
    while start < len(files):
        if stop <= start:
            stop = next((at for at in range(start, len(files)) if levels[at] != levels[start]), len(files))
        fitting = _fitting(map(files.__getitem__, range(start, stop)), COMPACTED_BYTES)
        all_fit = fitting == stop - start
        if fitting >= (FILES_PER_LEVEL if all_fit else _WORTHWHILE_FILES):
            return files[start : start + min(fitting, FILES_PER_LEVEL)]
        # If not even a few fit together, they are large enough.
        start += max(1, fitting)
    return ()


def worth_compacting_at_end(files: Sequence[Published], limit_bytes: int) -> Sequence[Published]:
    """Return the newest files to merge when the worker ends; empty if there is nothing to do."""
    fitting = _fitting(reversed(files), limit_bytes)
    return files[len(files) - fitting :] if fitting > 1 else ()


def _fitting(files: Iterable[Published], limit_bytes: int) -> int:
    """Return how many of the first files fit into one."""
    size_bytes = rows = fitting = 0
    for file in files:
        size_bytes, rows = size_bytes + file.size_bytes, rows + file.rows
        if size_bytes > limit_bytes or rows > COMPACTED_ROWS:
            break
        fitting += 1
    return fitting


def publish_compacted(store: Store, files: Sequence[Published]) -> Published:
    """Publish one file with the rows of all `files`, and return it. Then they may be deleted.

    If the process dies in between, both remain, and readers use the file with the longer range.

    Raises:
        DamagedChunk: One of them is damaged; nothing has changed.
        StoreError: An operation failed; retrying is safe.
    """
    tables, notes = [], []
    for file in files:
        data = proved(store, str(file.name), file.name.digest)
        tables.append(read_table(data, str(file.name)))
        notes.append(notes_of(pq.read_metadata(pa.BufferReader(pa.py_buffer(data))).metadata))
    table = sorted_by_key(pa.concat_tables(tables))
    merged = parquet_bytes(table, merged_notes(notes))
    first, last = files[0].name, files[-1].name
    name = ChunkName(first.worker, first.attempt, first.first, last.last, digest_of(merged))
    # The name has the digest: if it exists, an earlier try succeeded after all.
    with contextlib.suppress(ObjectExists):
        store.create(str(name), merged)
    tensors = tuple(tensors for file in files for tensors in file.tensors)
    last_steps: dict[str, int] = {}
    for file in files:
        for optimizer, step in file.last_steps.items():
            last_steps[optimizer] = max(step, last_steps.get(optimizer, 0))
    return Published(name, len(merged), len(table), tensors, last_steps)


def sorted_by_key(table: pa.Table) -> pa.Table:
    """Return the rows of one worker and attempt sorted by kind, path and tick, as in a chunk."""
    table = table.unify_dictionaries().combine_chunks()
    kinds, paths = dictionary_column(table, "kind"), dictionary_column(table, "path")
    rank = kinds.ranks()[kinds.codes] * len(paths.texts) + paths.ranks()[paths.codes]
    return table.take(pa.array(np.lexsort((table["tick"].to_numpy(), rank))))


def _level(name: ChunkName) -> int:
    level, span = 0, name.last - name.first + 1
    while span >= FILES_PER_LEVEL:
        level, span = level + 1, span // FILES_PER_LEVEL
    return level
