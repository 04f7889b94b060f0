"""MaxInitializationTime and RecordingDropped."""

from __future__ import annotations

from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.run_signs import MaxInitializationTime, RecordingDropped
from barograph.runs.reading.view import StepView


def vital(path: str, value: float) -> StepView:
    return StepView.of(0, {Key(Kind.VITAL, path): value})


def test_twenty_minutes_without_a_step_are_long() -> None:
    (found,) = MaxInitializationTime().judge(vital("waiting_secs", 1200.0), {})
    assert isinstance(found, Symptom)
    assert "20 minutes" in found.message


def test_nineteen_are_not_and_neither_is_silence_later() -> None:
    assert list(MaxInitializationTime().judge(vital("waiting_secs", 1140.0), {})) == []
    assert isinstance(next(iter(MaxInitializationTime().judge(vital("silence_secs", 9e9), {}))), Unjudged)


def test_steps_that_were_dropped_are_counted() -> None:
    (found,) = RecordingDropped().judge(vital("dropped_steps", 3.0), {})
    assert isinstance(found, Symptom)
    assert found.message.startswith("3 recorded steps were dropped")


def test_where_none_was_dropped_nothing_is_said() -> None:
    assert list(RecordingDropped().judge(vital("dropped_steps", 0.0), {})) == []
