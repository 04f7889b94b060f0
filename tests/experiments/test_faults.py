"""What a catalog survives: a database that is locked, away or full, a disk without room, and clocks that disagree."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from barograph.errors import CatalogUnavailable, StoreError
from barograph.experiments import database
from barograph.experiments.artifacts import ARTIFACTS
from barograph.experiments.catalog import Catalog
from barograph.experiments.run import Run, list_runs
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, Verb
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Journal
from experiments_entries import NOW_UNIX, component


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_BUSY_SECS", 0.05)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted by root on Linux only")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path, *, but_bytes: int = 0) -> Path:
    status = os.statvfs(place)
    ballast = place / "ballast"
    ballast.write_bytes(bytes(status.f_bavail * status.f_frsize - but_bytes))
    return ballast


@pytest.mark.usefixtures("impatient")
def test_a_catalog_that_another_writes_for_too_long_says_so_and_loses_nothing(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        catalog.tell(component("a"))
        with closing(sqlite3.connect(tmp_path / ".catalog" / "catalog.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(CatalogUnavailable, match=r"(?s)Another process has held the catalog's write lock.*"
                                                         "no need to repeat them"):
                catalog.tell([Entry("a", Verb.NOTE, {"text": "so it goes"})])
            assert catalog.item("a").notes == []
            other.execute("ROLLBACK")
        assert catalog.feed().batches == 1
        assert [note.text for note in catalog.item("a").notes] == ["so it goes"]


@pytest.mark.usefixtures("impatient")
def test_a_run_is_written_whatever_holds_the_catalog(tmp_path: Path) -> None:
    Run("first", root=tmp_path).close()
    assert len(list_runs(root=tmp_path)) == 1
    with closing(sqlite3.connect(tmp_path / ".catalog" / "catalog.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Run("second", root=tmp_path) as run:
            run.log_parameters({"lr": 0.1})
            run.log_metric("loss", 1.0)
            run.tag(team="vision")
        other.execute("ROLLBACK")
    assert [run.name for run in list_runs("tags.team = 'vision' and metrics.loss = 1", root=tmp_path)] == ["second"]


def test_a_server_that_stops_and_comes_back_has_lost_nothing(
    empty_postgresql: str, postgresql_server: Any, tmp_path: Path
) -> None:
    pgserver = pytest.importorskip("pgserver")
    with Catalog(tmp_path, url=make_url(empty_postgresql)) as catalog:
        catalog.tell(component("a"))
        pgserver.pg_ctl(["-w", "-m", "fast", "stop"], pgdata=postgresql_server.pgdata,
                        user=postgresql_server.system_user)
        with pytest.raises(CatalogUnavailable, match="no need to repeat them"):
            catalog.tell([Entry("a", Verb.NOTE, {"text": "so it goes"})])
        with pytest.raises(CatalogUnavailable, match="Cannot use the catalog"):
            catalog.item("a")
        postgresql_server.ensure_postgres_running()
        catalog.feed()
        assert [note.text for note in catalog.item("a").notes] == ["so it goes"]


def test_a_full_disk_is_said_and_what_was_there_stays(small_disk: Path) -> None:
    with Catalog(small_disk) as catalog:
        catalog.tell(component("a"))
        ballast = fill(small_disk)
        with pytest.raises(StoreError, match="is full"):
            catalog.tell([Entry("a", Verb.NOTE, {"text": "x" * 50_000})])
        assert catalog.item("a").notes == []
        ballast.unlink()
        assert catalog.feed().damage == []
        catalog.tell([Entry("a", Verb.NOTE, {"text": "so it goes"})])
        assert [note.text for note in catalog.item("a").notes] == ["so it goes"]


def test_where_there_is_room_for_the_journal_and_none_for_the_tables_nothing_is_lost(small_disk: Path) -> None:
    with Catalog(small_disk) as catalog:
        catalog.tell(component("a"))
        ballast = fill(small_disk, but_bytes=80_000)
        with pytest.raises(CatalogUnavailable, match=r"(?s)full.*no need to repeat them"):
            catalog.tell([Entry("a", Verb.NOTE, {"text": "x" * 60_000})])
        ballast.unlink()
        assert catalog.feed().batches == 1
        assert [len(note.text) for note in catalog.item("a").notes] == [60_000]


def test_an_artifact_for_which_there_is_no_room_is_not_there_by_half(small_disk: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(bytes(range(256)) * 400)
    with Run("first", root=small_disk) as run:
        ballast = fill(small_disk, but_bytes=50_000)
        with pytest.raises(StoreError, match="is full"):
            run.log_artifact(str(weights))
        assert [path for path in (small_disk / ARTIFACTS).rglob("*") if path.is_file() and "#" not in path.name] == []
        ballast.unlink()
        run.log_artifact(str(weights))
    (found,) = list_runs(root=small_disk)
    assert [link.size_bytes for link in found.outputs] == [102_400]


def test_of_clocks_an_hour_apart_the_order_of_times_decides_for_everybody_alike(catalog: Catalog) -> None:
    journal = Journal(catalog.store, JOURNAL_OF_ROOT)
    catalog.tell(component("a", time_unix=NOW_UNIX - 7200))
    for hours, who in ((1, "ahead"), (-1, "behind"), (0, "right")):
        journal.write([Entry("a", Verb.TAG, {"who": who}, NOW_UNIX + hours * 3600)])
        catalog.feed()
    told = catalog.item("a")
    assert told.tags == {"who": "ahead"}
    catalog.rebuild()
    assert catalog.item("a") == told


def test_of_two_who_say_something_at_one_moment_the_same_one_wins_everywhere(
    tmp_path: Path, clock: ManualClock
) -> None:
    winners = set()
    for place in ("one", "other"):
        with Catalog(tmp_path / place, clock=clock) as catalog:
            catalog.tell(component("a", time_unix=NOW_UNIX - 1))
            names = ["0001800000000000-00000001.json", "0001800000000000-00000002.json"]
            for name in names if place == "one" else reversed(names):
                written = Journal(catalog.store, JOURNAL_OF_ROOT).write([Entry("a", Verb.TAG, {"who": name}, NOW_UNIX)])
                (tmp_path / place / JOURNAL_OF_ROOT / written.name).rename(tmp_path / place / JOURNAL_OF_ROOT / name)
                catalog.feed()
            winners.add(catalog.item("a").tags["who"])
    assert winners == {"0001800000000000-00000002.json"}


def test_nothing_took_less_than_no_time(catalog: Catalog) -> None:
    catalog.tell([*component("a"), Entry("a", Verb.SET, {"started_unix": NOW_UNIX, "ended_unix": NOW_UNIX - 3600})])
    assert [item.name for item in catalog.find("duration = 0")] == ["a"]
    assert catalog.find("duration < 0") == []
