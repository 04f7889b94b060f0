"""Where the time of steps goes: the parts are no longer than the step."""

from __future__ import annotations

import pytest

from barograph.runs.reading.time_of_steps import time_of_steps
from diary import Diary


def test_the_rest_of_a_step_makes_up_for_phases_that_other_steps_repeat() -> None:
    diary = Diary()
    # The second record repeats the phases of the first, although its step was shorter.
    diary.step(0, {"time:steps": 1.0, "time:step": 1.5, "time:forward": 0.9, "time:other": 0.6})
    diary.step(1, {"time:steps": 1.0, "time:step": 0.5, "time:forward": 0.9, "time:other": 0.0})

    found = time_of_steps(diary.ended())

    assert found == pytest.approx({"step": 1.0, "forward": 0.9, "other": 0.1})


def test_phases_that_are_longer_than_the_steps_leave_no_rest() -> None:
    diary = Diary()
    diary.step(0, {"time:steps": 1.0, "time:step": 0.5, "time:forward": 0.9, "time:other": 0.0})

    assert time_of_steps(diary.ended())["other"] == 0.0
