"""Parquet files with JSON metadata in their footer."""

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
    """Return a file with these tables, one row group each, and metadata.

    Args:
        tables: Tables of that schema, in order.
        schema: Schema of all tables.
        notes: Metadata of the file.
        options: Options of `pyarrow.parquet.ParquetWriter`.
    """
    sink = io.BytesIO()
    writer = pq.ParquetWriter(sink, schema, **options)
    for table in tables:
        writer.write_table(table, row_group_size=max(1, len(table)))
    writer.add_key_value_metadata({_NOTES.decode(): json.dumps(notes)})
    writer.close()
    return sink.getvalue()


def notes_in(metadata: Mapping[bytes, bytes] | None) -> Any:
    """Return the metadata written by `noted_bytes`; an empty dictionary if there is none.

    Args:
        metadata: Key-value metadata of a file.

    Raises:
        ValueError: It is not JSON.
    """
    return json.loads((metadata or {}).get(_NOTES, b"{}"))


def read_noted(
    store: Store, name: RangeName, run_id: str, *, columns: Sequence[str], texts: Sequence[str], what: str,
    schema: pa.Schema | None = None,
) -> tuple[pa.Table, Mapping[str, Any]]:
    """Return the table and the metadata of a file.

    Args:
        store: Store of the run.
        name: Name of the file.
        run_id: ID of the run; "": any.
        columns: Columns to read.
        texts: Those to read as dictionaries.
        what: Description of the file for people.
        schema: Expected schema of the columns; None: the caller checks it.

    Raises:
        DamagedChunk: It is not what was published under that name in this run, or lacks a column.
        ObjectNotFound: There is no such file.
        StoreError: The store does not respond.
    """
    data = proved(store, str(name), name.digest)
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(data)), read_dictionary=list(texts))
        notes = notes_in(file.metadata.metadata)
        noted_run = notes["run_id"]
        missing = set(columns) - set(file.schema_arrow.names)
        check_sizes(file.metadata, len(data), str(name))
        table = file.read(columns=list(columns), use_threads=False)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedChunk(f"The file cannot be read as {what}: {error!r} ({name}).") from error
    if noted_run and run_id and noted_run != run_id:
        raise DamagedChunk(f"The file belongs to another run ({name}).")
    if missing:
        raise DamagedChunk(f"The file lacks the columns {', '.join(sorted(missing))} ({name}).")
    if schema is not None:
        check_columns(file, schema, str(name))
    return table, notes
