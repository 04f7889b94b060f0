"""A step and its neighbors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from barograph.errors import UnknownStep
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.key import key_from_text
from barograph.model.step import Mode
from barograph.queries.step import changed, step_around
from barograph.runs.reading.around import Change
from barograph.runs.reading.reader import RunReader

Training = Any  # of watched.py

FINDING = Finding("id", "X901", "x", Severity.COSTLY, FindingState.CLOSED, "m", "r", (), "", "p0", "", Mode.TRAIN, 4, 5,
                  6, 7, 0.0)


@pytest.fixture
def run(training: Training) -> RunReader:
    """A run of ten steps whose loss is their number."""
    training.steps(*(float(step) for step in range(10)))
    training.end()
    return RunReader(training.store)


def test_the_step_stands_among_its_neighbors(run: RunReader) -> None:
    found = step_around(run, 6)

    assert [row.step for row in found.steps] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert (found.here.step, found.here.loss, found.here.losses) == (6, 6.0, {"total": 6.0})
    assert (found.worker, found.figures) == ("p0", "")
    assert [str(change.key) for change in found.changes] == ["weight:fc.weight"]


def test_a_step_outside_the_run_is_unknown(run: RunReader) -> None:
    with pytest.raises(UnknownStep, match="nearest recorded step is 9"):
        step_around(run, 99)


def test_json_is_strict(run: RunReader) -> None:
    data = step_around(run, 3).to_json()

    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert list(data) == ["url", "asked", "step", "nearest_with_tensors", "steps", "changes", "findings", "damage",
                          "worker", "figures"]


def test_what_findings_did_is_told_at_their_steps(run: RunReader) -> None:
    found = replace(step_around(run, 6), findings=(FINDING,))

    assert {row.step: found.events(row) for row in found.steps if found.events(row)} == {
        4: ["X901 began"], 7: ["X901 gone"]}


def test_findings_of_another_optimizer_did_nothing_at_these_steps(run: RunReader) -> None:
    found = replace(step_around(run, 6), findings=(replace(FINDING, optimizer="generator"),))

    assert not any(found.events(row) for row in found.steps)


def test_small_changes_are_left_out_unless_something_is_not_finite() -> None:
    key = key_from_text("weight:fc")
    small = Change(key, "Linear", 1.1, 1.0, 10, 1.1, 0, 0)
    large = Change(key, "Linear", 20.0, 1.0, 10, 20.0, 0, 0)
    broken = Change(key, "Linear", 1.0, 1.0, 10, 1.0, 3, 3)

    assert changed([small, large, broken], decades=0.1) == [large, broken]
