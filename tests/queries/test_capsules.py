"""What a run keeps: capsules, checkpoints, output; and what is said of each in JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from barograph.model.capsule import CapsuleHead, Held
from barograph.queries.capsules import CapsuleRow, capsules_of
from barograph.queries.checkpoints import CheckpointRow, checkpoints_of, how_to_resume
from barograph.queries.output import WorkerOutput, output_of
from barograph.runs.reading.glance import RunState
from barograph.store.base import Store

Training = Any  # of watched.py


def checkpoint(steps: int, why_not: str | None) -> CheckpointRow:
    state = "not read" if why_not is None else "passed over" if why_not else "good"
    return CheckpointRow("checkpoints/a.json", 0, steps, 1.0, 10, state, why_not)


@pytest.mark.parametrize(
    ("rows", "state", "told"),
    [
        ([checkpoint(3, "It is damaged.")], RunState.KILLED, "Training cannot resume from any of them."),
        ([checkpoint(3, "")], RunState.FINISHED, "The run has finished. There is nothing to resume."),
        ([checkpoint(3, ""), checkpoint(6, "It is damaged.")], RunState.RUNNING,
         "Training is still running. After it ends, barograph resume restarts it from step 3."),
        ([checkpoint(3, None), checkpoint(6, "")], RunState.KILLED,
         "Resume from step 6, in the folder of the script:  barograph resume runs/a"),
    ],
)
def test_what_can_be_done_with_checkpoints_is_said(rows: list[CheckpointRow], state: RunState, told: str) -> None:
    assert how_to_resume(rows, state, "runs/a") == told


def test_a_checkpoint_is_json() -> None:
    assert checkpoint(3, "").to_json() == {
        "name": "checkpoints/a.json", "attempt": 0, "steps": 3, "saved_unix": 1.0, "size_bytes": 10, "state": "good",
        "why_not": ""}


def test_a_run_without_them_has_none(training: Training) -> None:
    training.steps(1.0)
    training.end()

    assert (checkpoints_of(training.store), capsules_of(training.store, "runs/a"), output_of(training.store)) == (
        [], [], [])


def test_a_capsule_that_cannot_be_read_says_why(store: Store) -> None:
    store.put("capsules/0000-00000007-p0/capsule.json", b"{")

    (row,) = capsules_of(store, "runs/a/")

    assert (row.place, row.head) == ("runs/a/capsules/0000-00000007-p0", None)
    assert list(row.to_json()) == ["place", "damaged"]


def test_a_capsule_is_json() -> None:
    head = CapsuleHead(0, "p0", 7, 7, "", Held.NOT_FINITE, "NaN", 1.0, numbers={"loss": math.nan})

    data = CapsuleRow("runs/a/capsules/7-p0", head).to_json()

    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["place"], data["step"], data["text"]) == ("runs/a/capsules/7-p0", 7, "NaN")


def test_output_is_json() -> None:
    assert WorkerOutput("p0", (("out", "a\n"), ("err", "b\n")), 0).to_json() == {
        "worker": "p0", "left_out": 0, "texts": [{"stream": "out", "text": "a\n"}, {"stream": "err", "text": "b\n"}]}
