"""Artifacts that nobody has any more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.errors import CatalogError
from barograph.experiments.artifacts import ARTIFACTS, artifact_of, place_of
from barograph.experiments.catalog import UNDO_DAYS, Catalog
from barograph.experiments.collecting import collect, collection_of
from barograph.experiments.run import Run
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, Verb
from barograph.runs.state.journal import JOURNAL_OF_RUN
from barograph.store.files import FileStore

DAY_SECS = 86_400.0


@pytest.fixture
def runs(tmp_path: Path, clock: ManualClock) -> Iterator[Catalog]:
    """A root with two runs, an artifact each, and an artifact that nobody has; put two days before the clock's time."""
    with Catalog(tmp_path / "runs", clock=clock) as catalog:
        for name in ("first", "second"):
            (tmp_path / name).write_text(name)
            with Run(name, to=str(tmp_path / "runs" / name)) as run:
                run.log_artifact(str(tmp_path / name))
        (tmp_path / "orphan").write_text("nobody has it")
        artifact_of(catalog.store, tmp_path / "orphan", None, media_type="", copy=True)
        age(catalog, clock.unix() - 2 * DAY_SECS)
        yield catalog


def age(catalog: Catalog, unix: float) -> None:
    for info in catalog.store.list(ARTIFACTS):
        os.utime(Path(catalog.store.url) / info.name, (unix, unix))


def kept(catalog: Catalog) -> list[str]:
    return sorted(bytes(catalog.store.get(info.name)).decode() for info in catalog.store.list(ARTIFACTS))


def swept(catalog: Catalog, clock: ManualClock, **options: bool) -> tuple[int, int]:
    return collect(catalog, collection_of(catalog, now_unix=clock.unix(), grace_secs=DAY_SECS, **options))


def test_what_nobody_has_goes_and_the_rest_stays(runs: Catalog, clock: ManualClock) -> None:
    found = collection_of(runs, now_unix=clock.unix(), grace_secs=DAY_SECS)
    assert (len(found.unwanted), found.size_bytes, found.kept) == (1, 13, 2)
    assert kept(runs) == ["first", "nobody has it", "second"]
    assert collect(runs, found) == (1, 13)
    assert kept(runs) == ["first", "second"]
    assert collect(runs, found) == (0, 0)


def test_what_a_killed_process_did_not_finish_writing_goes(runs: Catalog, clock: ManualClock) -> None:
    (store := runs.store).put(f"{ARTIFACTS}/00/sha256-00", b"whole")
    assert isinstance(store, FileStore)
    half = store.root / ARTIFACTS / "00" / "sha256-00#4194305000017"
    half.write_text("half")
    os.utime(half, (clock.unix(),) * 2)
    swept(runs, clock)
    assert half.exists(), "it was written a moment ago"
    os.utime(half, (clock.unix() - 2 * DAY_SECS,) * 2)

    swept(runs, clock)

    assert not half.exists()


def test_what_was_just_put_stays(runs: Catalog, clock: ManualClock) -> None:
    age(runs, clock.unix() - DAY_SECS + 60)
    assert swept(runs, clock) == (0, 0)


def test_what_is_logged_again_while_it_is_collected_stays(runs: Catalog, clock: ManualClock, tmp_path: Path) -> None:
    found = collection_of(runs, now_unix=clock.unix(), grace_secs=DAY_SECS)
    link = artifact_of(runs.store, tmp_path / "orphan", None, media_type="", copy=True, clock=clock)
    path = Path(runs.store.url) / place_of(link.digest)
    assert path.stat().st_mtime != clock.unix() - 2 * DAY_SECS
    os.utime(path, (clock.unix(), clock.unix()))
    assert collect(runs, found) == (0, 0)


def test_what_can_be_restored_stays_until_it_cannot(runs: Catalog, clock: ManualClock) -> None:
    runs.feed()
    runs.tell([Entry(runs.item("first").uid, Verb.DELETE)])
    assert swept(runs, clock) == (1, 13)
    clock.advance(UNDO_DAYS * DAY_SECS + 1)
    assert swept(runs, clock) == (1, 5)
    assert kept(runs) == ["second"]


def test_what_runs_had_whose_folders_are_gone_goes_where_that_is_said(runs: Catalog, clock: ManualClock) -> None:
    runs.feed()
    shutil.rmtree(Path(runs.store.url) / "first")
    found = collection_of(runs, now_unix=clock.unix(), grace_secs=DAY_SECS)
    assert (found.of_gone, found.of_gone_bytes, len(found.unwanted)) == (1, 5, 1)
    assert swept(runs, clock, with_gone=True) == (2, 18)


def test_what_a_run_said_in_a_paper_that_is_damaged_stays(runs: Catalog, clock: ManualClock) -> None:
    for metadata_file in (Path(runs.store.url) / "first" / JOURNAL_OF_RUN).iterdir():
        metadata_file.write_bytes(b"{}")
    runs.feed()
    with pytest.raises(CatalogError, match="cannot be read"):
        swept(runs, clock)
    assert kept(runs) == ["first", "nobody has it", "second"]


def test_where_something_cannot_be_read_nothing_goes(runs: Catalog, clock: ManualClock) -> None:
    [metadata_file] = (Path(runs.store.url) / "first" / "journal").glob("*.json")
    metadata_file.write_text(metadata_file.read_text().replace("first", "fir5t"))
    with pytest.raises(CatalogError, match="the artifacts they use are unknown"):
        swept(runs, clock)
    assert len(kept(runs)) == 3
