"""`barograph runs`: the runs in a place, a line each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.inspect import runs_page
from barograph.errors import StoreDenied
from barograph.queries.run_list import run_row
from barograph.runs.reading.glance import Glance, RunState
from barograph.store.base import Level
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url

Call = Callable[..., Any]


@pytest.fixture
def root(healthy: Path, sick: Path, tmp_path: Path) -> Path:
    """A directory with a run that nobody watched, one with a breaking finding, one damaged, and something else."""
    folder = tmp_path / "my runs"
    shutil.copytree(healthy, folder / "a" / "healthy")
    shutil.copytree(healthy, folder / "damaged")
    (folder / "damaged" / "run.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    sick.rename(folder / "sick")
    return folder


def test_every_run_below_is_listed_newest_first(call: Call, root: Path) -> None:
    said = call("runs", root)

    assert said.code == 0
    assert [line.split()[0] for line in said.lines] == ["name", "sick", "ein", "damaged"]
    assert said.lines[0].split("\t")[0] == "name"
    assert [line.partition(str(root))[2] for line in said.lines[1:]] == ["/sick", "/a/healthy", "/damaged"]


def test_a_row_tells_state_steps_and_loss(call: Call, root: Path) -> None:
    row = call("runs", root).row("sick")

    assert row[1] == "finished"
    assert row[4:6] == ["12", "nan"]


def test_thousands_of_steps_have_a_comma(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(run_row("long", Glance("file:///long", RunState.FINISHED), judged_all=True), started_unix=0.0,
                  steps=1720)
    monkeypatch.setattr(runs_page, "runs_in", lambda store, place: [row])

    assert call("runs", root).row("long")[4] == "1,720"


def test_a_run_that_nobody_watched_is_not_called_free_of_findings(call: Call, root: Path) -> None:
    assert "not watched" in next(line for line in call("runs", root).lines if line.startswith("ein lauf"))


def test_open_problems_are_counted_by_severity(call: Call, root: Path) -> None:
    call("watch", root / "sick", "--rules", "non-finite")

    (run,) = [item for item in call("runs", root, "--json").json if item["name"] == "sick"]

    assert run["open_problems"] == {"breaking": 1}
    assert "1 breaking" in next(line for line in call("runs", root).lines if line.startswith("sick"))


def test_none_is_only_said_where_all_was_seen(call: Call, copy: Path) -> None:
    call("watch", copy, "--rules", "non-finite")

    (run,) = call("runs", copy, "--json").json

    assert (run["watched"], run["covered"], run["open_problems"]) == (True, True, {})
    assert "\tnone\t" in call("runs", copy).lines[1]


def test_a_run_whose_watcher_died_is_not_called_free_of_findings(
    call: Call, tmp_path: Path, going_on: Callable[..., Any]
) -> None:
    place = tmp_path / "run"
    with going_on(place) as (_, step):
        call("watch", place, "--once", "--rules", "non-finite")
        step()

    assert "not fully evaluated" in call("runs", place).out


def test_json_tells_what_cannot_be_read(call: Call, root: Path) -> None:
    (damaged,) = [item for item in call("runs", root, "--json").json if item["place"].endswith("damaged")]

    assert damaged["state"] == "damaged"
    assert "run.json" in damaged["problems"][0]


@pytest.fixture
def denied(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`root`, where this user may not read `sick` and `a`."""
    level = FileStore.level

    def refused(store: FileStore, folder: str = "") -> Level:
        if folder in ("sick", "a"):
            raise StoreDenied(f"Reading or writing is not allowed there ({folder}).")
        return level(store, folder)

    monkeypatch.setattr(FileStore, "level", refused)
    return root


def test_runs_that_this_user_may_not_read_are_named_in_one_line(call: Call, denied: Path) -> None:
    said = call("runs", denied)

    assert said.err.splitlines() == [f"barograph: 2 runs could not be read: {denied}/a: permission denied; "
                                     f"{denied}/sick: permission denied"]
    assert [line.split()[0] for line in said.lines] == ["name", "damaged"]


def test_a_search_names_them_too(call: Call, denied: Path) -> None:
    said = call("search", "--root", denied)

    assert "barograph: 2 runs could not be read: " in said.err
    assert f"{denied}/sick: permission denied" in said.err


def test_json_has_them_with_the_reason(call: Call, denied: Path) -> None:
    runs = {Path(item["place"]).name: item for item in call("runs", denied, "--json").json}

    assert runs["sick"]["problems"] == ["permission denied"]
    assert runs["sick"]["run_id"] is None


def test_the_place_is_what_other_commands_take(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    places = [item["place"] for item in call("runs", root.name, "--json").json if item["state"] != "damaged"]

    assert places == ["my runs/sick", "my runs/a/healthy"]
    assert all(call("keys", place).code == 0 for place in places)


def test_a_run_that_goes_on_is_running(call: Call, tmp_path: Path, going_on: Callable[..., Any]) -> None:
    with going_on(tmp_path / "runs" / "now"):
        assert [item["state"] for item in call("runs", tmp_path / "runs", "--json").json] == ["running"]


def test_where_nothing_was_recorded_yet_that_is_no_error(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    said = call("runs")

    assert (said.code, said.out) == (0, "No runs below barograph-runs. To start one:  barograph run train.py\n")
    assert call("runs", "--json").json == []
    assert call("runs", tmp_path).code == 0


def test_a_wrong_directory_is_answered_with_the_nearest(call: Call, root: Path) -> None:
    said = call("runs", f"{root}x")

    assert (said.code, said.out) == (2, "")
    assert said.err == f"barograph: No runs at {root}x: no such directory. Did you mean {root}?\n"


def test_a_file_is_refused(call: Call, root: Path) -> None:
    assert call("runs", root / "notes.txt").err == (
        f"barograph: {root}/notes.txt is a file; runs are listed below a directory.\n"
    )


def test_runs_in_a_bucket_are_listed(call: Call, s3_url: str, healthy: Path) -> None:
    store = store_from_url(f"{s3_url}/deep/down/one")
    for file in healthy.rglob("*"):
        if file.is_file():
            store.put(str(file.relative_to(healthy)), file.read_bytes())

    (run,) = call("runs", s3_url, "--json").json

    assert (run["place"], run["state"], run["steps"]) == (f"{s3_url}/deep/down/one", "finished", 40)
    assert call("show", run["place"], "--json").json["steps"] == 40
