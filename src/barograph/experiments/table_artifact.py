"""Conversion of logged tables to Parquet and back."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from barograph.errors import DamagedChunk, SettingsError
from barograph.experiments.table import arrow_column
from barograph.model.exhibits import Sheet

if TYPE_CHECKING:
    import pyarrow as pa

ArrowTable: TypeAlias = "pa.Table"

PARQUET = "application/vnd.apache.parquet"
"""Media type of Parquet."""

MOST_ROWS = 20
"""Maximum number of shown rows."""

_MOST_LETTERS = 200


def table_to_parquet(values: Any) -> bytes:
    """Return a table as Parquet.

    Args:
        values: Columns by name, a list of rows (name to value), or a pandas, polars or Arrow table.

    Raises:
        SettingsError: It is not a table, or its columns differ in length.
    """
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(_arrow(values), file, compression="zstd")
    return file.getvalue()


def table_from_parquet(data: bytes) -> ArrowTable:
    """Return the Arrow table in a Parquet file.

    Raises:
        DamagedChunk: It is not valid Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Without Arrow's threads: one that holds a Python object at exit crashes the interpreter.
        return pq.ParquetFile(pa.BufferReader(pa.py_buffer(data))).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DamagedChunk(f"Not a valid Parquet file: {error}") from error


def sheet_from_parquet(title: str, data: bytes) -> Sheet:
    """Return the first rows of a table; errors as in `table_from_parquet`."""
    table = table_from_parquet(data)
    rows = [tuple(map(_text, row)) for row in zip(*(column.to_pylist() for column in
                                                   table.slice(0, MOST_ROWS).columns), strict=True)]
    return Sheet(title, tuple(table.column_names), tuple(rows), table.num_rows)


def _arrow(values: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(values, pa.Table):
        return values
    if isinstance(values, pa.RecordBatch):
        return pa.table(values)
    try:
        if type(values).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(values)
        if hasattr(values, "__arrow_c_stream__"):
            return pa.table(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SettingsError(f"Cannot store the table: {error}") from error
    return pa.table({name: arrow_column(column) for name, column in _columns(values).items()})


def _columns(values: Any) -> dict[str, Sequence[Any]]:
    if isinstance(values, Mapping):
        columns = {str(name): _listed(name, column) for name, column in values.items()}
    elif isinstance(values, Sequence) and values and all(isinstance(row, Mapping) for row in values):
        names = list(dict.fromkeys(name for row in values for name in row))
        columns = {str(name): [row.get(name) for row in values] for name in names}
    else:
        raise SettingsError(f"Cannot log a {type(values).__name__} as a table. Pass a dictionary of columns, a list "
                            "of dictionaries, or a pandas, polars or Arrow table.")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise SettingsError(f"The columns of the table have different lengths: {lengths}.")
    if not columns:
        raise SettingsError("The table has no columns.")
    return columns


def _listed(name: object, column: Any) -> Sequence[Any]:
    if callable(getattr(column, "detach", None)):
        column = column.detach().cpu()
    if callable(tolist := getattr(column, "tolist", None)):
        column = tolist()
    if isinstance(column, str | bytes) or not isinstance(column, Sequence):
        raise SettingsError(f'Column "{name}" of the table is a {type(column).__name__}; it must be a list of values.')
    return column


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    text = "" if value is None else str(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"
