"""Parquet files that say in their footer, as JSON, what they are."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from barograph.errors import DamagedChunk
from barograph.runs.format.layout import RangeName
from barograph.runs.format.proof import proved
from barograph.runs.format.sound import check_columns, check_sizes
from barograph.store.base import Store

_NOTES = b"barograph"


def noted_bytes(tables: Iterable[pa.Table], schema: pa.Schema, notes: Mapping[str, Any], **options: Any) -> bytes:
    """Return the file that holds these tables, each as a row group of its own, and these notes.

    Args:
        tables: One after the other, of that schema.
        schema: Of all.
        notes: What the file says of itself.
        options: Of `pyarrow.parquet.ParquetWriter`.
    """
    sink = io.BytesIO()
    writer = pq.ParquetWriter(sink, schema, **options)
    for table in tables:
        writer.write_table(table, row_group_size=max(1, len(table)))
    writer.add_key_value_metadata({_NOTES.decode(): json.dumps(notes)})
    writer.close()
    return sink.getvalue()


def notes_in(metadata: Mapping[bytes, bytes] | None) -> Any:
    """Return what `noted_bytes` noted; an empty dictionary where there is nothing.

    Args:
        metadata: A file's key-value metadata.

    Raises:
        ValueError: What is there is no JSON.
    """
    return json.loads((metadata or {}).get(_NOTES, b"{}"))


def read_noted(
    store: Store, name: RangeName, run_id: str, *, columns: Sequence[str], texts: Sequence[str], what: str,
    schema: pa.Schema | None = None,
) -> tuple[pa.Table, Mapping[str, Any]]:
    """Return the table of a file, and what it says of itself.

    Args:
        store: The run's.
        name: Of the file.
        run_id: Of the run; "": of any.
        columns: Only these.
        texts: Those of them that come as dictionaries.
        what: The file is, for people.
        schema: Of the columns; None: whoever asks checks it.

    Raises:
        DamagedChunk: It is not what was published under that name in this run, or lacks a column.
        ObjectNotFound: There is none.
        StoreError: The store does not answer.
    """
    data = proved(store, str(name), name.digest)
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(data)), read_dictionary=list(texts))
        notes = notes_in(file.metadata.metadata)
        said_run = notes["run_id"]
        missing = set(columns) - set(file.schema_arrow.names)
        check_sizes(file.metadata, len(data), str(name))
        table = file.read(columns=list(columns), use_threads=False)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedChunk(f"The file cannot be read as {what}: {error!r} ({name}).") from error
    if said_run and run_id and said_run != run_id:
        raise DamagedChunk(f"The file belongs to another run ({name}).")
    if missing:
        raise DamagedChunk(f"The file lacks the columns {', '.join(sorted(missing))} ({name}).")
    if schema is not None:
        check_columns(file, schema, str(name))
    return table, notes
