"""A list of runs says how each stands, and what it means that it has no open findings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.step import Mode
from barograph.queries.run_list import RunRow, run_row, runs_in
from barograph.runs.reading.glance import Glance, RunState
from barograph.store.urls import store_from_url
from barograph.watch.loop import Watcher

Training = Any  # of watched.py

SEEN = Glance("file:///runs/a", RunState.FINISHED, watched=True, covered=True)




def finding(state: FindingState) -> Finding:
    return Finding("id", "X901", "x", Severity.NOTE, state, "m", "r", (), "", "p0", "", Mode.TRAIN, 0, 0, 0, None, 0.0)


@pytest.mark.parametrize(
    ("changes", "judged_all", "told"),
    [
        ({}, True, "none"),
        ({"findings": [finding(FindingState.CLOSED)] * 2}, True, "none (2 gone)"),
        ({"findings": [finding(FindingState.OPEN)]}, True, ""),
        ({"covered": False}, True, "none found"),
        ({"state": RunState.KILLED}, True, "none found"),
        ({"state": RunState.RUNNING}, True, "none so far"),
        ({}, False, "not fully evaluated"),
        ({"watched": False}, False, "not watched"),
    ],
)
def test_what_no_open_findings_means_is_said(changes: dict[str, Any], judged_all: bool, told: str) -> None:
    assert run_row("runs/a", replace(SEEN, **changes), judged_all=judged_all).no_open_findings == told


def test_a_run_whose_manifest_is_damaged_is_named_by_its_place() -> None:
    row = run_row("runs/a/", Glance("file:///runs/a", RunState.DAMAGED, problems=("It is damaged.",)), judged_all=False)

    assert (row.title, row.run_id, row.started_unix, row.problems) == ("a", None, None, ("It is damaged.",))


def test_json_has_an_entry_for_each_field() -> None:
    data = run_row("runs/a", SEEN, judged_all=True).to_json()

    assert list(data) == list(RunRow.__dataclass_fields__)
    assert (data["state"], data["cost_share"], data["open_findings"]) == ("finished", None, {})


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
    assert [row.open_findings for row in rows] == [{Severity.COSTLY: 1}, {}, {}]
    assert [row.problem for row in rows] == ["The loss is 2, since step 0", "", ""]
    assert [row.judged_all for row in rows] == [True, False, False]
    assert all(math.isnan(row.cost_share) or row.cost_share >= 0 for row in rows)
