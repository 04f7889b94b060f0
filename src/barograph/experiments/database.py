"""Database of a catalog: SQLite beside the runs, or a shared PostgreSQL server."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError

from barograph.errors import CatalogUnavailable, MissingExtra, NewerCatalog, SettingsError
from barograph.experiments.backup import copy_file, copy_tables
from barograph.experiments.schema import METADATA, ROOT
from barograph.machine.filesystem import network_filesystem
from barograph.store.base import Store
from barograph.store.files import FileStore

CATALOG_VARIABLE = "BAROGRAPH_CATALOG"
"""Environment variable with the SQLAlchemy URL of the catalog: `postgresql+psycopg://…`."""

REVISION = "0003"
"""The newest migration; see `migrations/versions`."""

_FILE = "catalog.sqlite"
_BUSY_SECS = 30.0
_CACHE_KIB = 64 * 1024
_MIGRATING, _WRITING = 8241150, 8241151
"""Numbers of PostgreSQL advisory locks that nobody else is likely to use."""


def catalog_url(store: Store) -> URL:
    """Return the URL of the catalog of a root.

    That is `BAROGRAPH_CATALOG` if set, else an SQLite file in `.catalog` of the root. If the root is a bucket or on a
    network file system, where concurrent writers would corrupt SQLite, the file is in the user's cache.

    Raises:
        SettingsError: The variable is not a database URL, or it names a file on a network file system.
    """
    said = os.environ.get(CATALOG_VARIABLE, "").strip()
    if said:
        try:
            return _usable(make_url(said))
        except ArgumentError:
            raise SettingsError(f"{CATALOG_VARIABLE} is not a valid URL; write one such as "
                                "postgresql+psycopg://user@host/name.") from None
    if isinstance(store, FileStore) and not why_elsewhere(store):
        return URL.create("sqlite", database=str(store.root / ".catalog" / _FILE))
    name = hashlib.sha256(store.url.encode()).hexdigest()[:24]
    return URL.create("sqlite", database=str(_own_cache() / f"{name}.sqlite"))


def why_elsewhere(store: Store) -> str:
    """Return why the catalog is not stored beside the runs although no variable sets its location; "" if it is.

    Example:
        >>> from barograph.store.urls import store_from_url
        >>> why_elsewhere(store_from_url("memory://runs"))
        'the runs are not in a directory'
    """
    if not isinstance(store, FileStore):
        return "the runs are not in a directory"
    kind = network_filesystem(store.root)
    return f"the runs are on a network file system ({kind}), which would corrupt SQLite" if kind else ""


def _usable(url: URL) -> URL:
    kind = network_filesystem(Path(url.database)) if url.get_backend_name() == "sqlite" and url.database else ""
    if kind:
        raise SettingsError(f"{CATALOG_VARIABLE} puts an SQLite file on a network file system ({kind}), where two "
                            "machines that write would corrupt it. Use a local disk, or one PostgreSQL server "
                            f"for all machines ({url.database}).")
    return url


def set_aside_if_damaged(url: URL) -> str:
    """Rename a damaged SQLite file and return its new path; "" if it is intact or missing.

    Raises:
        OSError: It cannot be renamed.
    """
    path = Path(url.database or "")
    if url.get_backend_name() != "sqlite" or not path.is_file():
        return ""
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            # Not quick_check: in SQLite 3.40 it reports intact tables without row IDs.
            if connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",):
                return ""
    except sqlite3.OperationalError:
        return ""  # locked or unreadable: opening it reports the reason
    except sqlite3.DatabaseError:
        pass
    aside = path.with_name(f"{path.name}.damaged")
    path.replace(aside)
    for beside in ("-wal", "-shm"):
        path.with_name(f"{path.name}{beside}").unlink(missing_ok=True)
    return str(aside)


class Database:
    """Tables of a catalog, in the newest schema.

    Args:
        url: URL of the database.
        root: URL of the root that the catalog belongs to.

    Raises:
        CatalogUnavailable: It is unreachable, or belongs to another root.
        NewerCatalog: A newer Barograph created it.
        MissingExtra: The driver in the URL is not installed.
        SettingsError: The kind of database is unknown.
    """

    def __init__(self, url: URL, root: str) -> None:
        self.url = url
        self._engine = _engine(url)
        try:
            self._ready(root)
        except BaseException:
            self.close()
            raise

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is an SQLite file."""
        return self._engine.dialect.name == "sqlite"

    @property
    def shown(self) -> str:
        """Location without the password, for messages."""
        return self.url.database or "" if self.is_sqlite else self.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that reads one snapshot."""
        with self._mapped(), self._engine.connect() as connection:
            # Otherwise each statement would see writes made since the one before.
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN")
            else:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection whose changes are committed together, or not at all."""
        with self._mapped(), self._engine.connect() as connection:
            if self.is_sqlite:
                # Immediate: a transaction that reads first is refused if another wrote before its first write.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                # One writer at a time here, too: an item is recomputed from all its entries, and the later of two
                # concurrent writers would miss the other's entries.
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITING})")
            yield connection
            connection.commit()
            if self.is_sqlite:
                # Or what was written stays in the cache of this connection: 30 MB after a hundred thousand metrics.
                connection.exec_driver_sql("PRAGMA shrink_memory")

    def forget(self) -> None:
        """Empty every table."""
        with self.writing() as connection:
            for table in METADATA.sorted_tables:
                if table is not ROOT:
                    connection.execute(table.delete())

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _ready(self, root: str) -> None:
        with self._mapped():
            if self.is_sqlite:
                Path(self.url.database or "").parent.mkdir(parents=True, exist_ok=True)
            with self._engine.connect() as connection:
                revision = revision_of(connection)
            if revision != REVISION:
                self._migrate(revision)
            self._claim(root)

    def _claim(self, root: str) -> None:
        with self.reading() as connection:
            known = connection.execute(select(ROOT.c.url)).scalars().first()
        if known is None:
            with self.writing() as connection:
                if connection.execute(select(ROOT.c.url)).scalars().first() is None:
                    connection.execute(ROOT.insert(), [{"url": root}])
        elif known != root and not self.is_sqlite:
            raise CatalogUnavailable(f"This database is already the catalog of {known}, and holds only one. Set "
                                     f"{CATALOG_VARIABLE} to another database or schema for {root}.")
        elif known != root:
            # The directory was moved; `feed` finds its contents again.
            with self.writing() as connection:
                connection.execute(ROOT.update().values(url=root))

    def _migrate(self, revision: str | None) -> None:
        # Alembic is slow to import, and only migrations need it.
        from barograph.experiments.migrating import known_revisions, migrate

        if revision is not None and revision not in known_revisions():
            raise NewerCatalog(f"The catalog has schema {revision}, from a newer Barograph; this one supports up to "
                               f"{REVISION}. Update Barograph, or set {CATALOG_VARIABLE} to another location and "
                               f"run barograph reindex ({self.shown}).")
        with self._engine.connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                for lock in (_MIGRATING, _WRITING):
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({lock})")
            present = revision_of(connection)
            if present == REVISION:
                return  # another process has migrated it meanwhile
            saved = copy_file(self.url.database or "", present) if present is not None and self.is_sqlite else ""
            try:
                if present is not None and not self.is_sqlite:
                    copy_tables(connection, present)
                migrate(connection)
                connection.commit()
            except Exception as error:
                kept = f", with a copy at {saved}" if saved else ""
                raise CatalogUnavailable(
                    f"Cannot migrate the catalog from schema {present or 'none'} to {REVISION}: {error}. The "
                    f"catalog is unchanged{kept} ({self.shown}).") from error

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._as_ours(error) from error
        except (SQLAlchemyError, OSError) as error:
            raise CatalogUnavailable(f"Cannot use the catalog: {error} ({self.shown}).") from error

    def _as_ours(self, error: DBAPIError) -> CatalogUnavailable:
        said = str(error.orig).strip().splitlines()[0] if error.orig and str(error.orig).strip() else repr(error.orig)
        if isinstance(error, OperationalError) and "locked" in said:
            return CatalogUnavailable(f"Another process has held the catalog's write lock for {_BUSY_SECS:g} s. Try "
                                      f"again ({self.shown}).")
        if "malformed" in said or "not a database" in said:
            return CatalogUnavailable(f"The catalog is damaged: {said}. No data is lost: the catalog is only an "
                                      f"index. Rebuild it from the runs with barograph reindex ({self.shown}).")
        return CatalogUnavailable(f"Cannot use the catalog: {said} ({self.shown}).")


def revision_of(connection: Connection) -> str | None:
    """Return the schema of a database; None if it has none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().first()
    return None if found is None else str(found)


def _engine(url: URL) -> Engine:
    try:
        if url.get_backend_name() != "sqlite":
            return create_engine(url, pool_pre_ping=True)
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECS})
    except NoSuchModuleError:
        raise SettingsError(f"{CATALOG_VARIABLE} names an unsupported database, {url.drivername}; use "
                            "postgresql+psycopg://… or sqlite:///….") from None
    except ModuleNotFoundError as error:
        raise MissingExtra(f"A catalog on PostgreSQL needs {error.name}: "
                           "pip install 'barograph[postgresql]'.") from None
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _: object) -> None:
    # Transactions begin explicitly; the driver would begin them later, and as readers.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", f"cache_size = -{_CACHE_KIB}",
                       "temp_store = MEMORY", "mmap_size = 1073741824"):
            try:
                cursor.execute(f"PRAGMA {pragma}")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):  # another connection is setting the same
                    raise
    finally:
        cursor.close()


def _own_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "barograph" / "catalogs"
