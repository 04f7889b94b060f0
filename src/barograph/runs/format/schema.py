"""The one schema of every Parquet file in a run, and how its columns are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from barograph.model.summary import MOMENT_FIELDS, UNIT_FIELDS

_TEXT = pa.dictionary(pa.int32(), pa.string())

TEXTS = ("worker", "optimizer", "mode", "kind", "path", "layer", "dtype")
"""Columns of texts: few different ones, many times each."""

COUNTS = ("count", "nan", "posinf", "neginf", "zeros")
"""Moments that are whole numbers."""

UNIT_LISTS = tuple(f"unit_{name}" for name in UNIT_FIELDS)
"""Columns that hold one number a unit."""

SCHEMA = pa.schema([
    pa.field("attempt", pa.int32(), nullable=False),
    pa.field("worker", _TEXT, nullable=False),
    pa.field("chunk", pa.int64(), nullable=False),
    pa.field("tick", pa.int64(), nullable=False),
    pa.field("step", pa.int64(), nullable=False),
    pa.field("optimizer", _TEXT, nullable=False),
    pa.field("mode", _TEXT, nullable=False),
    pa.field("skipped", pa.bool_()),
    # In UTC, yet without saying so: DuckDB cannot hand out times with a zone unless pytz is installed.
    pa.field("time", pa.timestamp("us"), nullable=False),
    pa.field("kind", _TEXT, nullable=False),
    pa.field("path", _TEXT, nullable=False),
    pa.field("layer", _TEXT, nullable=False),
    pa.field("dtype", _TEXT, nullable=False),
    pa.field("shard", pa.bool_(), nullable=False),
    pa.field("whole", pa.int64()),
    pa.field("position", pa.int32()),
    pa.field("tensor", pa.bool_(), nullable=False),
    pa.field("value", pa.float64()),
    *(pa.field(name, pa.int64() if name in COUNTS else pa.float64()) for name in MOMENT_FIELDS),
    pa.field("exponents", pa.list_(pa.field("element", pa.uint16(), nullable=False))),
    pa.field("exponent_counts", pa.list_(pa.field("element", pa.int64(), nullable=False))),
    pa.field("unit_count", pa.int64()),
    pa.field("unit_bound", pa.float64()),
    *(pa.field(name, pa.list_(pa.field("element", pa.float64(), nullable=False))) for name in UNIT_LISTS),
])

ROW_GROUP_ROWS = 128 * 1024
"""Rows are sorted by kind and path, so a reader of one series skips the groups it is not in."""

SMALL_ROW_GROUP_ROWS = 16 * 1024
"""Row group size with many paths: reading a group reads all names in it."""

_FEW_TEXTS = 4096

_FLOATS = ("value", *(name for name in MOMENT_FIELDS if name not in COUNTS), "unit_bound")
_GROWING = ("tick", "step", "time")

WRITER_OPTIONS: dict[str, Any] = {
    "version": "2.6",
    "compression": "zstd",
    "compression_level": 3,
    "use_dictionary": [*TEXTS, "attempt", "chunk", "position", *COUNTS, "unit_count"],
    "column_encoding": {
        **dict.fromkeys(_FLOATS, "BYTE_STREAM_SPLIT"),
        **{f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in UNIT_LISTS},
        **dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
        "exponents.list.element": "DELTA_BINARY_PACKED",
        "exponent_counts.list.element": "DELTA_BINARY_PACKED",
    },
    "write_statistics": ["attempt", "worker", "chunk", "tick", "step", "optimizer", "mode", "kind", "path"],
    # For other readers of the files; ours verifies the digest of the whole file.
    "write_page_checksum": True,
    # The Arrow schema would add a kilobyte to every file without being used.
    "store_schema": False,
}


def row_groups(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the row groups that a table of `SCHEMA` is written in, each with the texts that are in it and no others."""
    many = any(len(chunk.dictionary) > _FEW_TEXTS for chunk in table["path"].chunks)
    rows = SMALL_ROW_GROUP_ROWS if many else ROW_GROUP_ROWS
    for start in range(0, max(1, len(table)), rows):
        yield with_few_texts(table.slice(start, rows))


def with_few_texts(table: pa.Table) -> pa.Table:
    """Return a table whose string dictionaries contain few strings that no row uses."""
    for index, name in enumerate(table.column_names):
        column = table.column(index)
        if pa.types.is_dictionary(column.type) and any(
                len(chunk.dictionary) > max(_FEW_TEXTS, len(table)) for chunk in column.chunks):
            few = column.cast(pa.string()).dictionary_encode()
            table = table.set_column(index, SCHEMA.field(name), few)
    return table
