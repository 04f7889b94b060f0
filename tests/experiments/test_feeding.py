"""What has not changed is not looked at again, and what has is seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments import feeding
from barograph.experiments.catalog import Catalog
from barograph.experiments.run import Run, load_run
from barograph.model.clock import ManualClock
from barograph.model.items import Entry, Verb
from barograph.runs.glance import Glance
from barograph.runs.journal import JOURNAL_OF_ROOT, JOURNAL_OF_RUN, Journal
from barograph.store.base import Store
from experiments_entries import component

LONG_AGO_SECS = 10.0


def age(folder: Path) -> None:
    """Make all folders look as if nothing had been put into them for a while."""
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        moment = path.stat().st_mtime - LONG_AGO_SECS
        os.utime(path, (moment, moment))


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
    inner = feeding.Run
    monkeypatch.setattr(feeding, "Run", lambda store: opened.append(store.url) or inner(store))
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
