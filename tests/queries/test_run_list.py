"""A list of runs says how each stands, and what it means that it has no open problems."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.judging.progress import RateJump
from barograph.judging.state import STATE
from barograph.model.cause import Cause, Suspicion
from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.manifest import Manifest
from barograph.model.step import Mode
from barograph.queries.run_list import RunRow, run_row, runs_at, runs_in
from barograph.runs.reading.glance import Glance, RunState
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url
from barograph.watch.loop import Watcher

Training = Any  # of watched.py

SEEN = Glance("file:///runs/a", RunState.FINISHED, watched=True, covered=True)




def finding(state: FindingState, code: str) -> Finding:
    return Finding(f"{code}-id", code, "x", Severity.NOTE, state, "m", "r", (), "", "p0", "", Mode.TRAIN, 0, 0, 0,
                   None, 0.0)


@pytest.mark.parametrize(
    ("changes", "judged_all", "told"),
    [
        ({}, True, "none"),
        ({"findings": [finding(FindingState.CLOSED, code) for code in ("X901", "X902")]}, True, "none (2 gone)"),
        ({"findings": [finding(FindingState.OPEN, "X901")]}, True, ""),
        ({"covered": False}, True, "none found"),
        ({"state": RunState.KILLED}, True, "none found"),
        ({"state": RunState.RUNNING}, True, "none so far"),
        ({}, False, "not fully evaluated"),
        ({"watched": False}, False, "not watched"),
    ],
)
def test_what_no_open_problems_means_is_said(changes: dict[str, Any], judged_all: bool, told: str) -> None:
    assert run_row("runs/a", replace(SEEN, **changes), judged_all=judged_all).no_open_problems == told


@pytest.mark.parametrize(("changes", "judged_all", "sentence"), [
    ({"watched": False}, False, "This run has not been watched."),
    ({"state": RunState.STARTING, "watched": False}, False, "No training steps yet."),
    ({"state": RunState.RUNNING, "steps": 3}, False, "No problems so far."),
    ({}, False, "No problems found so far. Not everything was judged yet."),
    ({}, True, "No training steps recorded."),
    ({"steps": 3}, True, "No problems found."),
    ({"steps": 3, "covered": False}, True, "No problems found in the recorded steps."),
    ({"steps": 3, "findings": (finding(FindingState.OPEN, "A101"),)}, True, "m, since step 0"),
    ({"manifest": None, "problems": ("run.json is damaged.",)}, True, "run.json is damaged."),
])
def test_a_sentence_says_how_a_run_stands(changes: dict[str, Any], judged_all: bool, sentence: str) -> None:
    manifest = Manifest("a", "a", 0.0)
    seen = replace(SEEN, **{"manifest": manifest, **changes})

    assert run_row("runs/a", seen, judged_all=judged_all).sentence == sentence


def test_findings_of_one_cause_are_one_problem() -> None:
    dead = Suspicion(Cause.DEAD_RELU, 0.9, "the biases are -10", "Initialize biases to 0.")
    found = [replace(finding(FindingState.OPEN, code), causes=(dead,)) for code in ("A101", "W104")]

    row = run_row("runs/a", replace(SEEN, findings=found), judged_all=True)

    assert (row.open_problems, row.gone_problems) == ({Severity.NOTE: 1}, 0)
    assert (row.open_findings, row.findings) == ({Severity.NOTE: 2}, 2)


def test_a_jump_of_the_learning_rate_explains_what_follows_it_in_the_list_as_in_the_run() -> None:
    found = [replace(finding(FindingState.OPEN, code), opened_step=205) for code in ("G103", "L105")]
    jump = RateJump("p0", 200, 0.01, 5.0, 199)

    row = run_row("runs/a", replace(SEEN, findings=found), judged_all=True, jumps=[jump])

    assert row.problem.startswith("The learning rate jumped from 0.01 to 5")
    assert row.open_problems == {Severity.NOTE: 1}


def test_a_run_whose_manifest_is_damaged_is_named_by_its_place() -> None:
    row = run_row("runs/a/", Glance("file:///runs/a", RunState.DAMAGED, problems=("It is damaged.",)), judged_all=False)

    assert (row.title, row.run_id, row.started_unix, row.problems) == ("a", None, None, ("It is damaged.",))


def test_json_has_an_entry_for_each_field() -> None:
    data = run_row("runs/a", SEEN, judged_all=True).to_json()

    assert list(data) == list(RunRow.__dataclass_fields__)
    assert (data["state"], data["cost_share"], data["open_problems"]) == ("finished", None, {})


def test_the_newest_run_comes_first(
    new_training: Callable[..., Training], high: Any, tmp_path: Path
) -> None:
    for name, started in (("old", 100.0), ("new", 300.0), ("deep/between", 200.0)):
        clock = ManualClock(unix=started)
        training = new_training(store_from_url(str(tmp_path / name)), clock)
        training.steps(2.0, 3.0)
        training.end()
    with_finding = store_from_url(str(tmp_path / "new"))
    watcher = Watcher(with_finding, [high()])
    watcher.poll()
    watcher.close()

    rows = runs_in(store_from_url(str(tmp_path)), str(tmp_path))

    assert [Path(row.place).name for row in rows] == ["new", "between", "old"]
    assert [row.open_problems for row in rows] == [{Severity.COSTLY: 1}, {}, {}]
    assert [row.problem for row in rows] == ["The loss is 2, since step 0", "", ""]
    assert [row.judged_all for row in rows] == [True, False, False]
    assert all(math.isnan(row.cost_share) or row.cost_share >= 0 for row in rows)


def test_the_state_of_a_watcher_is_read_once_for_a_run(
    new_training: Callable[..., Training], high: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, read = ManualClock(unix=100.0), []
    training = new_training(store_from_url(str(tmp_path / "run")), clock)
    training.steps(0.5, 2.0)
    training.end()
    watcher = Watcher(training.store, [high()], clock=clock)
    watcher.poll()
    watcher.close()
    get = FileStore.get

    def counted(store: FileStore, name: str) -> Any:
        read.append(name)
        return get(store, name)

    monkeypatch.setattr(FileStore, "get", counted)
    (row,) = runs_at([str(tmp_path / "run")])

    assert (row.findings, row.judged_all, read.count(STATE)) == (1, True, 1)
