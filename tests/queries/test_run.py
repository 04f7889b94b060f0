"""A run: its state, its verdict, and how to have the rest of it judged."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from barograph.model.finding import Severity
from barograph.model.manifest import Coverage, Heartbeat
from barograph.queries import recall
from barograph.queries.run import origin_of, run_details, run_now
from barograph.queries.workers import chosen, figures_of
from barograph.rules.base import Rule
from barograph.rules.registry import Catalog
from barograph.runs.reading.glance import RunState
from barograph.runs.reading.reader import RunReader
from barograph.watch.loop import Watcher
from diary import Diary

Training = Any  # of watched.py

SEEN = Heartbeat(0, 0.0, step=3, loss=2.0, coverage=Coverage(loss_seen=True, steps=3, steps_seen=3))


@pytest.fixture
def sick(training: Training, high: type[Rule], monkeypatch: pytest.MonkeyPatch) -> RunReader:
    """A run with three steps whose loss is high, judged by one rule."""
    monkeypatch.setattr(recall, "installed", lambda: Catalog((high,)))
    training.heartbeat = SEEN
    training.steps(2.0, 3.0, 2.0)
    training.end()
    watcher = Watcher(training.store, [high()], clock=training.clock)
    watcher.poll()
    watcher.close()
    return RunReader(training.store)


def test_a_run_is_described_as_it_stands(sick: RunReader) -> None:
    now = run_now(sick)

    assert (now.state, now.steps, now.judged, now.open_problems) == (RunState.FINISHED, 3, True, 1)
    assert now.verdict == "1 problem: The loss is 2."
    assert [item.severity for item in now.findings] == [Severity.COSTLY]
    assert now.furthest == (now.glance.workers[0].last, 3)
    assert now.hint("runs/a") == ""


def test_findings_of_another_worker_are_not_those_of_the_one_shown(sick: RunReader) -> None:
    assert len(run_now(sick, "p0").findings) == 1
    assert run_now(sick, "p1").findings == []


def test_how_to_have_a_run_judged_is_said(training: Training) -> None:
    training.heartbeat = SEEN
    training.steps(0.5)
    training.end()

    now = run_now(RunReader(training.store))

    assert (now.verdict, now.judged) == ("This run has not been watched.", False)
    assert now.hint("runs/a") == "To have it judged: barograph watch runs/a"


def test_how_to_go_on_is_said_where_the_watcher_did_not_reach_the_end(
    training: Training, high: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "installed", lambda: Catalog((high,)))
    training.heartbeat = SEEN
    training.steps(0.5)
    watcher = Watcher(training.store, [high()], clock=training.clock)
    watcher.poll()
    watcher.close()
    training.steps(0.5, first=1)
    training.end()

    assert run_now(RunReader(training.store)).hint("runs/a") == (
        "Its last watcher did not get to the end. To go on: barograph watch runs/a")


def test_a_run_whose_rule_is_gone_is_judged_anew(sick: RunReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "installed", lambda: Catalog(()))

    hint = run_now(sick).hint("runs/a")

    assert hint.startswith("It was watched with a rule X901")
    assert hint.endswith("barograph watch runs/a --fresh")


def test_json_has_all_that_is_known(sick: RunReader) -> None:
    data = run_details(sick).to_json()

    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert list(data) == [
        "url", "name", "run_id", "state", "origin", "started_unix", "command", "versions", "attempt", "worker",
        "figures", "steps", "loss", "verdict", "watched", "judged_all", "open_problems", "open_findings", "problems",
        "diagnosis",
        "findings", "not_evaluated", "unseen", "warnings", "workers", "time", "numbers", "layers", "held",
        "checkpoints", "go_on_from", "exhibits", "damage",
    ]
    assert [item["key"] for item in data["numbers"]] == ["loss:total"]
    assert [(item["path"], item["class"], item["health"]) for item in data["layers"]] == [("fc", "Linear", "ok")]


@pytest.mark.parametrize(("logged", "loss"), [
    ({"train/loss": 2.0, "val/loss": 3.0}, 2.0),
    ({"Loss": math.inf}, "inf"),
    ({"accuracy": 0.5}, None),
])
def test_json_has_the_loss_that_the_script_logs(logged: dict[str, float], loss: object) -> None:
    diary = Diary()
    diary.step(0, {f"scalar:{name}": value for name, value in logged.items()})

    assert run_details(diary.ended()).to_json()["loss"] == loss


def test_the_origin_of_a_run_without_one_is_none(sick: RunReader) -> None:
    assert origin_of(sick) == (None, "")


def test_a_damaged_origin_is_told(sick: RunReader) -> None:
    sick.store.put("origin/0000.json", b"{")

    origin, problem = origin_of(sick)

    assert origin is None
    assert "origin/0000.json" in problem


def test_a_run_of_one_worker_is_shown_whole(sick: RunReader) -> None:
    assert chosen(sick) == (sick, None)
    assert figures_of(sick, None) == ""
