"""Validates the structure of our Parquet files: readers rely on the column types and on a small footer."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from barograph.errors import DamagedChunk

_FEW_ROW_GROUPS, _ROWS_OF_A_GROUP = 16, 256
"""Groups of the writer hold thousands of rows. Thousands of groups of one row cost a hundred megabytes to read."""
_FEW_ROWS, _ROWS_OF_A_BYTE = 10**6, 1000
"""Columns that never change compress well, and yet not without end."""


def check_sizes(footer: pq.FileMetaData, size_bytes: int, name: str) -> None:
    """Reject a file with very many row groups, or with far more rows than its bytes can contain.

    Raises:
        DamagedChunk: The file is invalid.
    """
    rows, groups = footer.num_rows, footer.num_row_groups
    if groups > _FEW_ROW_GROUPS + rows // _ROWS_OF_A_GROUP:
        raise DamagedChunk(f"The file has {groups:,} row groups for {rows:,} rows; it was not written by Barograph "
                           f"({name}).")
    if rows > _FEW_ROWS + size_bytes * _ROWS_OF_A_BYTE:
        raise DamagedChunk(f"The file claims {rows:,} rows in {size_bytes:,} bytes ({name}).")


def check_columns(file: pq.ParquetFile, expected: pa.Schema, name: str) -> None:
    """Reject a file whose columns have other types, or unexpected nulls.

    Args:
        file: The file.
        expected: Required columns.
        name: Name of the file, for the message.

    Raises:
        DamagedChunk: The columns differ.
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
