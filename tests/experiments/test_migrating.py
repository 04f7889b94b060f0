"""A catalog of an older Barograph is brought to the present schema, with a copy of what it was."""

import multiprocessing
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.operations import Operations
from sqlalchemy import URL, Connection, create_engine, inspect, make_url, text

from barograph.errors import CatalogUnavailable
from barograph.experiments import migrating
from barograph.experiments.catalog import Catalog
from barograph.experiments.database import CATALOG_VARIABLE, REVISION
from barograph.experiments.migrating import known_revisions
from barograph.experiments.schema import METADATA
from experiments_entries import component


def file_of(root: Path) -> Path:
    return root / ".catalog" / "catalog.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[URL, URL]]:
    """Two empty databases of one kind."""
    if request.param == "sqlite":
        yield make_url(f"sqlite:///{tmp_path}/one.sqlite"), make_url(f"sqlite:///{tmp_path}/other.sqlite")
        return
    url = make_url(request.getfixturevalue("empty_postgresql"))
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA IF EXISTS fresh CASCADE"))
        connection.execute(text("CREATE SCHEMA fresh"))
    engine.dispose()
    yield url, url.update_query_dict({"options": "-csearch_path=fresh"})


def schema_of(url: URL) -> dict[str, Any]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = {table: _table(connection, table) for table in inspect(connection).get_table_names()}
    engine.dispose()
    return found


def _table(connection: Connection, table: str) -> dict[str, Any]:
    looked = inspect(connection)
    return {
        "columns": [(it["name"], str(it["type"]), it["nullable"]) for it in looked.get_columns(table)],
        "key": looked.get_pk_constraint(table)["constrained_columns"],
        "unique": sorted(it["column_names"] for it in looked.get_unique_constraints(table)),
        "indexes": sorted((it["name"], it["column_names"], str(it.get("dialect_options", {})))
                          for it in looked.get_indexes(table)),
        "options": looked.get_table_options(table) if connection.dialect.name == "sqlite" else {},
    }


def make_old(url: URL, revision: str) -> None:
    """Make a database as the migrations up to one make it."""
    engine = create_engine(url)
    with engine.connect() as connection:
        _migrate_to(connection, revision)
        connection.commit()
    engine.dispose()


def _migrate_to(connection: Connection, revision: str) -> None:
    context = migrating.MigrationContext.configure(
        connection, opts={"fn": lambda rev, _: migrating._SCRIPTS._upgrade_revs(revision, rev)})
    with Operations.context(context):
        context.run_migrations()


def test_a_migrated_database_equals_a_fresh_one(databases: tuple[URL, URL]) -> None:
    migrated, fresh = databases
    make_old(migrated, REVISION)
    engine = create_engine(fresh)
    METADATA.create_all(engine)
    engine.dispose()
    found = schema_of(migrated)
    found.pop("alembic_version")
    assert found == schema_of(fresh)


def test_the_newest_migration_is_the_schema_that_this_barograph_writes() -> None:
    assert known_revisions()[-1] == REVISION


@pytest.mark.parametrize("revision", known_revisions()[:-1])
def test_an_older_catalog_keeps_all_it_holds_and_a_copy_of_what_it_was(tmp_path: Path, revision: str) -> None:
    root = tmp_path / "runs"
    _old_catalog(root, revision)
    with Catalog(root) as catalog:
        assert catalog.item("a").parameters == {"lr": 0.1}
        assert catalog.feed().damage == []
    saved = Path(f"{file_of(root)}.schema-{revision}")
    with closing(sqlite3.connect(saved)) as copy:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision,)]
        assert copy.execute("SELECT name FROM items").fetchall() == [("a",)]


def _old_catalog(root: Path, revision: str) -> None:
    """A catalog with an item, as a Barograph of that schema left it: what was written last beside the file yet."""
    with Catalog(root) as catalog:
        catalog.tell(component("a", parameters={"lr": 0.1}))
    rows = {}
    with closing(sqlite3.connect(file_of(root))) as database:
        for table in METADATA.tables:
            rows[table] = database.execute(f"SELECT * FROM {table}").fetchall()
    for file in (root / ".catalog").glob("catalog.sqlite*"):
        file.unlink()
    make_old(make_url(f"sqlite:///{file_of(root)}"), revision)
    with closing(sqlite3.connect(file_of(root))) as database:
        database.execute("PRAGMA journal_mode = WAL")
        for table, found in rows.items():
            for row in found:
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        database.commit()


@pytest.mark.parametrize("revision", known_revisions()[:-1])
def test_an_older_catalog_at_a_server_is_copied_beside_its_tables(
    tmp_path: Path, empty_postgresql: str, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    monkeypatch.setenv(CATALOG_VARIABLE, empty_postgresql)
    with Catalog(tmp_path / "runs") as catalog:
        catalog.tell(component("a", parameters={"lr": 0.1}))
    url = make_url(empty_postgresql)
    engine = create_engine(url)
    with engine.begin() as connection:
        rows = {table: connection.execute(table.select()).mappings().all() for table in METADATA.sorted_tables}
        METADATA.drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        # Somebody else's, and what an earlier migration kept, which was not to be the last.
        connection.execute(text("CREATE TABLE theirs AS SELECT 1 AS one"))
        connection.execute(text(f"CREATE TABLE items_schema_{revision} AS SELECT 1 AS one"))
    make_old(url, revision)
    with engine.begin() as connection:
        for table, found in rows.items():
            if found:
                connection.execute(table.insert(), [dict(row) for row in found])
    before = schema_of(url)

    def fails(connection: Connection) -> None:
        connection.execute(text("DROP TABLE items"))
        raise RuntimeError("out of luck")

    with monkeypatch.context() as patch:
        patch.setattr(migrating, "migrate", fails)
        with pytest.raises(CatalogUnavailable, match=r"out of luck\. The catalog is unchanged "):
            Catalog(tmp_path / "runs")
    assert schema_of(url) == before
    with Catalog(tmp_path / "runs") as catalog:
        assert catalog.item("a").parameters == {"lr": 0.1}
    with engine.connect() as connection:
        versions = connection.execute(text(f"SELECT version_num FROM alembic_version_schema_{revision}"))
        assert versions.scalars().all() == [revision]
        assert connection.execute(text(f"SELECT name FROM items_schema_{revision}")).scalars().all() == ["a"]
        tables = inspect(connection).get_table_names()
    engine.dispose()
    assert set(tables) == {*METADATA.tables, "alembic_version", "theirs",
                           *(f"{table}_schema_{revision}" for table in (*METADATA.tables, "alembic_version"))}


def test_a_migration_that_fails_leaves_the_old_catalog_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "runs"
    _old_catalog(root, known_revisions()[0])
    before = schema_of(make_url(f"sqlite:///{file_of(root)}"))

    def fails(connection: Connection) -> None:
        connection.exec_driver_sql("DROP TABLE items")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'half'")
        raise RuntimeError("out of luck")

    monkeypatch.setattr(migrating, "migrate", fails)
    said = r"from schema 0001 to .*: out of luck\. The catalog is unchanged, with a copy at"
    with pytest.raises(CatalogUnavailable, match=said):
        Catalog(root)
    assert schema_of(make_url(f"sqlite:///{file_of(root)}")) == before
    monkeypatch.undo()
    with Catalog(root) as catalog:
        assert catalog.item("a").name == "a"


def _open(root: str, results: "multiprocessing.Queue[str]", start: "multiprocessing.synchronize.Barrier") -> None:
    start.wait()
    with Catalog(root) as catalog:
        results.put(catalog.item("a").name)


def test_two_that_migrate_one_catalog_at_once_do_it_once_and_keep_the_old_one(tmp_path: Path) -> None:
    root, revision = tmp_path / "runs", known_revisions()[0]
    _old_catalog(root, revision)
    processes = multiprocessing.get_context("spawn")
    results, start = processes.Queue(), processes.Barrier(2)
    started = [processes.Process(target=_open, args=(str(root), results, start)) for _ in range(2)]
    for process in started:
        process.start()
    assert [results.get(timeout=600) for _ in started] == ["a", "a"]
    for process in started:
        process.join()
    with closing(sqlite3.connect(f"{file_of(root)}.schema-{revision}")) as copy:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision,)]
