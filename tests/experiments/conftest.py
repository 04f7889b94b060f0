"""What tests of experiments share: a catalog on each kind of database, with a clock that stands."""

from collections.abc import Iterator
from pathlib import Path

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
