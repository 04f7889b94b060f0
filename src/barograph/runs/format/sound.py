"""Whether a Parquet file is built as ours are: readers rely on its types, and on a footer that is small."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from barograph.errors import DamagedChunk

_FEW_ROW_GROUPS, _ROWS_OF_A_GROUP = 16, 256
"""Groups of the writer hold thousands of rows. Thousands of groups of one row cost a hundred megabytes to read."""
_FEW_ROWS, _ROWS_OF_A_BYTE = 10**6, 1000
"""Columns that never change compress well, and yet not without end."""


def check_sizes(footer: pq.FileMetaData, size_bytes: int, name: str) -> None:
    """Refuse a file with very many row groups, or with far more rows than its bytes can hold.

    Raises:
        DamagedChunk: It is such a file.
    """
    rows, groups = footer.num_rows, footer.num_row_groups
    if groups > _FEW_ROW_GROUPS + rows // _ROWS_OF_A_GROUP:
        raise DamagedChunk(f"The file has {groups:,} row groups for {rows:,} rows; it was not written by Barograph "
                           f"({name}).")
    if rows > _FEW_ROWS + size_bytes * _ROWS_OF_A_BYTE:
        raise DamagedChunk(f"The file claims {rows:,} rows in {size_bytes:,} bytes ({name}).")


def check_columns(file: pq.ParquetFile, expected: pa.Schema, name: str) -> None:
    """Refuse a file whose columns have other types, or nulls where there must be none.

    Args:
        file: It.
        expected: The columns that it must have, at least.
        name: Of the file, for the message.

    Raises:
        DamagedChunk: Its columns are others.
    """
    known = file.schema_arrow
    for field in expected:
        found = known.field(field.name)
        if not _is_same(found.type, field.type):
            raise DamagedChunk(f"The column {field.name} is {found.type}, not {field.type} ({name}).")
        # Other programs write every column so that it may hold nulls.
        if found.nullable and not field.nullable and file.read([field.name], use_threads=False)[0].null_count:
            raise DamagedChunk(f"The column {field.name} has nulls ({name}).")


def _is_same(found: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_list(expected):
        # Some programs call the element otherwise.
        return bool(pa.types.is_list(found) and found.value_type == expected.value_type)
    if pa.types.is_timestamp(expected):
        return bool(pa.types.is_timestamp(found) and found.unit == expected.unit)
    return bool(found == expected)
