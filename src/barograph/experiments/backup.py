"""Backup of a catalog before a schema migration."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, inspect

from barograph.experiments.schema import METADATA

_VERSION = "alembic_version"


def copy_file(path: str, revision: str) -> str:
    """Copy an SQLite catalog, while nobody else may write it; return the path of the copy.

    Args:
        path: Path of the file.
        revision: Schema of the catalog.

    Raises:
        OSError, sqlite3.Error: The file cannot be read, or the copy cannot be written.
    """
    saved = f"{path}.schema-{revision}"
    Path(f"{saved}.new").unlink(missing_ok=True)  # left by an interrupted copy
    # Copied by SQLite, because the latest writes may be in the WAL file.
    with (contextlib.closing(sqlite3.connect(path)) as source,
          contextlib.closing(sqlite3.connect(f"{saved}.new")) as target):
        source.backup(target)
    os.replace(f"{saved}.new", saved)
    return saved


def copy_tables(connection: Connection, revision: str) -> None:
    """Copy the tables of a catalog on a server within the current transaction.

    The copies contain rows only: to go back to an older Barograph, recreate or empty its tables and fill them from
    the copies. Other tables in the same schema are left alone.

    Args:
        connection: Connection whose transaction keeps others from writing the tables.
        revision: Schema of the tables.

    Raises:
        DBAPIError: The tables cannot be copied.
    """
    present = set(inspect(connection).get_table_names())
    quote = connection.dialect.identifier_preparer.quote
    for table in (*METADATA.tables, _VERSION):
        if table in present:
            copy = quote(f"{table}_schema_{revision}")
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {copy}")
            connection.exec_driver_sql(f"CREATE TABLE {copy} AS TABLE {quote(table)}")
