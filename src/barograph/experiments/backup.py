"""Keeps what a catalog is before its tables are brought to another schema."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, inspect

from barograph.experiments.schema import METADATA

_VERSION = "alembic_version"


def copy_file(path: str, revision: str) -> str:
    """Copy a catalog that is a file of SQLite, while nobody else may write it; return where to.

    Args:
        path: Of the file.
        revision: The schema it has.

    Raises:
        OSError: The copy cannot be written.
        sqlite3.Error: Likewise, or the file cannot be read.
    """
    saved = f"{path}.schema-{revision}"
    Path(f"{saved}.new").unlink(missing_ok=True)  # what a copy that did not end has left
    # By SQLite, since what was written last may not be in the file yet, but in the one beside it.
    with (contextlib.closing(sqlite3.connect(path)) as source,
          contextlib.closing(sqlite3.connect(f"{saved}.new")) as target):
        source.backup(target)
    os.replace(f"{saved}.new", saved)
    return saved


def copy_tables(connection: Connection, revision: str) -> None:
    """Copy the tables of a catalog at a server, beside them and in the transaction of the connection.

    They hold the rows alone: who goes back to an older Barograph makes its tables anew, or empties those that are
    there, and fills them from these. Tables that somebody else keeps in the same schema are left alone.

    Args:
        connection: To the server. Nobody else may write the tables until its transaction ends.
        revision: The schema they have.

    Raises:
        DBAPIError: They cannot be made.
    """
    present = set(inspect(connection).get_table_names())
    quote = connection.dialect.identifier_preparer.quote
    for table in (*METADATA.tables, _VERSION):
        if table in present:
            copy = quote(f"{table}_schema_{revision}")
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {copy}")
            connection.exec_driver_sql(f"CREATE TABLE {copy} AS TABLE {quote(table)}")
