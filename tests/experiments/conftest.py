"""What tests of experiments share: a catalog on each kind of database, with a clock that stands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.experiments.catalog import Catalog
from barograph.model.clock import ManualClock
from experiments_entries import NOW_UNIX


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves when it is told to."""
    return ManualClock(unix=NOW_UNIX)


@pytest.fixture
def catalog(tmp_path: Path, clock: ManualClock) -> Iterator[Catalog]:
    """An empty catalog."""
    with Catalog(tmp_path / "runs", clock=clock) as made:
        yield made
