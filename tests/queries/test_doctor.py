"""Whether a run is intact, and where the time of its steps goes."""

from __future__ import annotations

from typing import Any

import pytest

from barograph.queries.doctor import Checkup, checkup_of
from barograph.queries.step_time import TimeOfSteps, step_time_of
from barograph.runs.reading.doctor import Diagnosis
from barograph.runs.reading.reader import RunReader

Training = Any  # of watched.py


@pytest.mark.parametrize(
    ("diagnosis", "told"),
    [
        (Diagnosis("x"), "intact, and empty: no process has recorded anything yet."),
        (Diagnosis("x", workers=1), "intact: every recorded file is present and readable."),
        (Diagnosis("x", workers=1, unended=["p0 is running."]), "intact so far: the run is still running."),
        (Diagnosis("x", workers=1, damaged=["a", "b"], dropped=["c"]), "not intact: 2 damaged, 1 dropped."),
    ],
)
def test_whether_a_run_is_intact_is_a_sentence(diagnosis: Diagnosis, told: str) -> None:
    found = Checkup(diagnosis)

    assert "".join(found.verdict) == told
    assert found.intact is told.startswith("intact")
    assert found.to_json() == diagnosis.to_json()


def test_a_damaged_file_is_found(training: Training) -> None:
    training.steps(1.0)
    training.end()
    assert checkup_of(training.store).intact
    chunk = next(item.name for item in training.store.list() if item.name.endswith(".parquet"))
    training.store.put(chunk, b"x")

    assert not checkup_of(training.store).intact


def test_the_largest_part_of_a_step_comes_first() -> None:
    time = TimeOfSteps({"step": 0.2, "data": 0.05, "forward": 0.0, "backward": 0.1})

    assert [(part.name, part.share) for part in time.parts] == [("backward", 0.5), ("waiting for data", 0.25)]
    assert time.to_json()["backward"] == 0.1


def test_a_run_without_times_has_no_parts(training: Training) -> None:
    training.steps(1.0)
    training.end()

    time = step_time_of(RunReader(training.store))

    assert (time.step_secs, time.parts, time.to_json()) == (0.0, [], {})
