"""What has not changed is not looked at again, and what has is seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import SettingsError, StoreDenied
from barograph.experiments import feeding, marks
from barograph.experiments.catalog import Catalog
from barograph.experiments.component import Component
from barograph.experiments.editing import Edit, edit_item
from barograph.experiments.labels import run_at
from barograph.experiments.run import Run, load_run
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, Verb
from barograph.model.origin import Origin
from barograph.provenance.gathering import Gathered
from barograph.runs.reading.glance import Glance
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.journal import JOURNAL_OF_ROOT, JOURNAL_OF_RUN, Journal
from barograph.runs.state.origins import write_origin
from barograph.store.base import Level, Store
from barograph.store.files import FileStore
from experiments_entries import component

LONG_AGO_SECS = 10.0
DAY_SECS = 86_400.0


def age(folder: Path) -> None:
    """Make all folders look as if nothing had been put into them for a while."""
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        moment = path.stat().st_mtime - LONG_AGO_SECS
        os.utime(path, (moment, moment))


def recorded_at(folder: Path, loss: float) -> None:
    """Record another run in a folder that does not exist."""
    with Run("r", root=str(folder.parent)) as run:
        run.log_metric("loss", 1.0, 0)
        run.log_metric("loss", loss, 1)
    next(path for path in folder.parent.glob("*-r-*") if path.name != "older").rename(folder)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs that were looked at, by name."""
    names: list[str] = []
    glances: Callable[[Sequence[Store]], list[Glance]] = feeding.glances

    def look(stores: Sequence[Store], **more: Any) -> list[Glance]:
        names.extend(Path(store.url).name for store in stores)
        return glances(stores, **more)

    monkeypatch.setattr(feeding, "glances", look)
    return names


@pytest.fixture
def ended(tmp_path: Path) -> tuple[Catalog, Path]:
    """A catalog that has taken in a run that has just ended, and that run."""
    with Run("r", root=str(tmp_path / "runs")) as run:
        run.log_metrics({"loss": 0.5})
    age(tmp_path / "runs")
    catalog = Catalog(tmp_path / "runs", clock=ManualClock(unix=run._clock.unix()))
    assert catalog.feed().runs == 1
    return catalog, Path(run.url)


def test_a_run_that_has_just_ended_is_not_looked_at_again(
    ended: tuple[Catalog, Path], looked: list[str], tmp_path: Path
) -> None:
    catalog, _ = ended
    assert catalog.feed().runs == 0
    with Catalog(tmp_path / "runs", clock=ManualClock(unix=catalog._clock.unix())) as other:
        assert other.feed().runs == 0
    assert looked == []
    catalog.feed(thorough=True)
    assert len(looked) == 1


def test_what_is_told_of_it_later_is_seen(ended: tuple[Catalog, Path], looked: list[str]) -> None:
    catalog, folder = ended
    (item,) = catalog.find()
    Journal(feeding.store_from_url(str(folder)), JOURNAL_OF_RUN).write([Entry(item.uid, Verb.TAG, {"a": "b"}, 9e9)])
    catalog.feed()
    assert len(looked) == 1
    assert catalog.item("r").tags == {"a": "b"}


def test_what_a_worker_says_of_its_data_after_its_end_is_seen(ended: tuple[Catalog, Path]) -> None:
    catalog, folder = ended
    write_origin(feeding.store_from_url(str(folder)), 0, Gathered(Origin(parameters={"lr": 0.5})))
    catalog.feed()
    assert catalog.item("r").parameters == {"lr": 0.5}


def test_a_run_that_goes_on_the_next_day_is_seen(ended: tuple[Catalog, Path]) -> None:
    catalog, folder = ended
    with load_run("r", root=str(folder.parent)) as again:
        again.log_metric("loss", 0.25, 1)
    with Catalog(folder.parent, clock=ManualClock(unix=catalog._clock.unix() + 2 * DAY_SECS)) as later:
        later.feed()
        assert later.item("r").metrics["loss"].last == 0.25


def test_where_folders_tell_nothing_who_writes_on_has_it_looked_at(
    ended: tuple[Catalog, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, folder = ended
    monkeypatch.setattr(feeding, "network_filesystem", lambda path: True)
    monkeypatch.setattr(marks, "SETTLED_SECS", -9e9)
    with load_run("r", root=str(folder.parent)) as again:
        again.log_metric("loss", 0.25, 1)
    with Catalog(folder.parent, clock=catalog._clock) as later:
        later.feed()
        assert later.item("r").metrics["loss"].last == 0.25


def test_a_run_that_ended_long_ago_is_not_looked_at_again(ended: tuple[Catalog, Path], looked: list[str]) -> None:
    _, folder = ended
    with Catalog(folder.parent, clock=ManualClock(unix=9e9)) as later:
        later.feed()
    assert looked == []


def test_what_could_not_be_read_of_a_run_is_read_once_it_can(tmp_path: Path) -> None:
    with Run("r", root=str(tmp_path / "runs")) as run:
        run.tag(a="b")
    (metadata_file,) = (Path(run.url) / JOURNAL_OF_RUN).iterdir()
    whole = metadata_file.read_bytes()
    metadata_file.write_bytes(whole.replace(b"b", b"c"))
    with Catalog(tmp_path / "runs") as catalog:
        assert len(catalog.feed().damage) == 1
        assert len(catalog.feed().damage) == 1  # and is said until then
        metadata_file.write_bytes(whole)
        assert catalog.feed().damage == []
        assert catalog.item("r").tags == {"a": "b"}


def test_a_run_that_may_not_be_read_any_more_is_not_gone(
    ended: tuple[Catalog, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, folder = ended
    level = FileStore.level

    def refused(store: FileStore, name: str = "") -> Level:
        if name == folder.name:
            raise StoreDenied("Reading or writing is not allowed there.")
        return level(store, name)

    monkeypatch.setattr(FileStore, "level", refused)
    fed = catalog.feed()

    assert (fed.gone, fed.damage) == (0, [f"{folder}: permission denied"])
    assert catalog.item("r").facts["state"] != "gone"


def test_what_is_known_of_a_run_stays_when_its_folder_goes(ended: tuple[Catalog, Path]) -> None:
    catalog, folder = ended
    folder.rename(folder.parent.parent / "elsewhere")
    catalog.feed()
    assert catalog.item("r").metrics["loss"].last == 0.5
    catalog.tell([Entry(catalog.item("r").uid, Verb.TAG, {"a": "b"})])
    assert catalog.item("r").metrics["loss"].last == 0.5


def test_a_number_that_is_told_of_a_run_stands_beside_its_own(ended: tuple[Catalog, Path]) -> None:
    catalog, folder = ended
    told = Component.load("r", root=folder.parent).log_metric("tested", 0.75)
    assert {name: it.last for name, it in told.metrics.items()} == {"loss": 0.5, "tested": 0.75}
    catalog.rebuild()
    assert {name: it.last for name, it in catalog.item("r").metrics.items()} == {"loss": 0.5, "tested": 0.75}


def test_what_makes_no_sense_is_not_told(file_catalog: Catalog) -> None:
    with pytest.raises(SettingsError, match="not a string"):
        file_catalog.tell([Entry("component-1", Verb.INPUT, {
            "name": "data", "uri": "s3://b/k", "media_type": 5, "digest": "", "size_bytes": -1})])
    assert file_catalog.feed().damage == []


def test_a_run_that_goes_on_in_another_attempt_is_seen(ended: tuple[Catalog, Path]) -> None:
    catalog, folder = ended
    with load_run("r", root=str(folder.parent)) as again:
        again.log_metric("loss", 0.25, 1)
    catalog.feed()
    assert catalog.item("r").metrics["loss"].last == 0.25


def test_a_run_that_changed_while_it_was_looked_at_is_looked_at_again(
    ended: tuple[Catalog, Path], looked: list[str]
) -> None:
    catalog, folder = ended
    os.utime(folder / "findings" if (folder / "findings").exists() else folder)
    catalog.feed()
    catalog.feed()
    assert len(looked) == 2
    age(folder)
    catalog.feed()
    catalog.feed()
    assert len(looked) == 3


def test_a_run_whose_folder_is_gone_is_told(ended: tuple[Catalog, Path]) -> None:
    catalog, folder = ended
    folder.rename(folder.parent.parent / "elsewhere")
    assert catalog.feed().gone == 1


@pytest.mark.parametrize("was_missed", [False, True])
def test_a_run_whose_folder_holds_another_run_is_archived(ended: tuple[Catalog, Path], was_missed: bool) -> None:
    catalog, folder = ended
    first = catalog.item("r").uid
    shutil.rmtree(folder)
    if was_missed:
        assert catalog.feed().gone == 1
    recorded_at(folder, 0.25)
    catalog.feed()

    [found] = catalog.find("kind = 'run'")
    assert (found.uid != first, found.metrics["loss"].last) == (True, 0.25)
    [old] = catalog.find("kind = 'run' and archived")
    assert (old.uid, old.facts["state"], old.metrics["loss"].last) == (first, "gone", 0.5)
    now = run_at(catalog, found.facts["place"])
    assert now is not None
    assert now.uid == found.uid
    catalog._clock.advance(1.0)  # type: ignore[attr-defined]
    assert edit_item(catalog, old, Edit(archived=False, starred=True)).facts["state"] == "gone"
    catalog.feed(thorough=True)
    assert {item.uid: bool(item.facts.get("starred")) for item in catalog.find("kind = 'run'")} == {
        first: True, found.uid: False}


def test_a_run_that_was_moved_before_another_took_its_place_stays(ended: tuple[Catalog, Path]) -> None:
    catalog, folder = ended
    first = catalog.item("r").uid
    folder.rename(folder.with_name("older"))
    recorded_at(folder, 0.25)
    catalog.feed()

    places = {item.uid: Path(item.facts["place"]).name for item in catalog.find("kind = 'run'")}
    assert len(places) == 2
    assert places[first] == "older"


def test_the_journal_is_listed_where_something_was_told(
    file_catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []
    names = Journal.names
    monkeypatch.setattr(Journal, "names", lambda journal: listed.append(1) or names(journal))
    folder = tmp_path / "runs" / JOURNAL_OF_ROOT
    file_catalog.tell(component("a"))
    age(folder)
    file_catalog.feed()
    assert listed == [1]
    file_catalog.feed()
    assert listed == [1]
    Journal(file_catalog.store, JOURNAL_OF_ROOT).write([*component("b")])
    assert file_catalog.feed().batches == 1
    assert [item.name for item in file_catalog.find("order by name")] == ["a", "b"]


def test_a_batch_that_was_damaged_is_read_once_it_is_whole(file_catalog: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / JOURNAL_OF_ROOT
    batch = Journal(file_catalog.store, JOURNAL_OF_ROOT).write([*component("a")])
    whole = (folder / batch.name).read_bytes()
    (folder / batch.name).write_bytes(whole[:-5])
    age(folder)
    assert len(file_catalog.feed().damage) == 1
    (folder / batch.name).write_bytes(whole)
    assert file_catalog.feed().batches == 1


def test_a_run_under_way_is_read_on_from_where_it_was(
    file_catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    init = RunReader.__init__

    def opening(self: RunReader, store: Store, **options: Any) -> None:
        opened.append(store.url)
        init(self, store, **options)

    monkeypatch.setattr(RunReader, "__init__", opening)
    with Run("r", root=str(tmp_path / "runs")) as run:
        run.log_metrics({"loss": 0.5})
        for _ in range(3):
            assert file_catalog.feed().runs == 1
        assert len(opened) == 1
        run.log_metrics({"loss": 0.25})
    file_catalog.feed()
    assert file_catalog.item("r").metrics["loss"].last == 0.25


def test_of_a_run_that_was_there_twice_the_one_that_stays_is_known(ended: tuple[Catalog, Path]) -> None:
    catalog, folder = ended
    shutil.copytree(folder, folder.with_name("copy"))
    catalog.feed()
    shutil.rmtree(folder.with_name("copy"))
    catalog.feed()
    [run] = catalog.find("kind = 'run'")
    assert run.facts["place"] == str(folder)


def test_what_is_more_urgent_goes_before_each_run_and_runs_are_there_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "_RUNS_AT_ONCE", 2)
    for name in ("a", "b", "c"):
        with Run(name, root=str(tmp_path / "runs")) as run:
            run.log_metrics({"loss": 0.5})
    age(tmp_path / "runs")
    catalog = Catalog(tmp_path / "runs", clock=ManualClock(unix=run._clock.unix()))
    gave_way, read, there = list[None](), list[None](), list[tuple[int, int]]()

    catalog.feed(give_way=lambda: gave_way.append(None), before_records=lambda: read.append(None),
                 progress=lambda done, total: there.append((total, catalog.indexed_runs)))
    assert len(gave_way) == 6, "each is checked, then read"
    assert [indexed for total, indexed in there if total == 3] == [0, 2, 3]
    catalog.feed(give_way=lambda: gave_way.append(None), before_records=lambda: read.append(None))

    assert (len(gave_way), len(read)) == (9, 3), "each is checked, and read only once"
