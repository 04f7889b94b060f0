"""What tests of experiments share: a catalog on each kind of database, with a clock that stands."""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from barograph.experiments.catalog import Catalog
from barograph.experiments.database import CATALOG_VARIABLE
from barograph.model.clock import ManualClock
from experiments_entries import NOW_UNIX


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves when it is told to."""
    return ManualClock(unix=NOW_UNIX)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Any]:
    """The PostgreSQL server of this test session."""
    pgserver = pytest.importorskip("pgserver", reason="the PostgreSQL server (pgserver) is not installed here")
    # Not in pytest's folder: the server runs as a user of its own, where root starts it, and each session of pytest
    # shuts that folder for others.
    with tempfile.TemporaryDirectory(prefix="barograph-postgresql-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a folder that a library of pgserver looks for
            server = pgserver.get_server(Path(folder, "data"), cleanup_mode="delete")
        yield server
        server.cleanup()


@pytest.fixture(scope="session")
def postgresql(postgresql_server: Any) -> str:
    """Its URL."""
    return str(postgresql_server.get_uri()).replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def empty_postgresql(postgresql: str) -> str:
    """The same, with nothing in its database."""
    engine = create_engine(postgresql)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()
    return postgresql


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog(
    tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Catalog]:
    """An empty catalog, in each kind of database."""
    if request.param == "postgresql":
        monkeypatch.setenv(CATALOG_VARIABLE, request.getfixturevalue("empty_postgresql"))
    with Catalog(tmp_path / "runs", clock=clock) as made:
        yield made


@pytest.fixture
def file_catalog(tmp_path: Path, clock: ManualClock) -> Iterator[Catalog]:
    """An empty catalog in a file of SQLite."""
    with Catalog(tmp_path / "runs", clock=clock) as made:
        yield made
