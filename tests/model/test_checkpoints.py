"""How checkpoints are set, and refused."""

from __future__ import annotations

import json

import pytest

from barograph.errors import SettingsError, UnknownName
from barograph.model.checkpoints import CheckpointSettings, checkpoints_from, with_cadence
from barograph.model.launch import LAUNCH_VARIABLE, Launch, launch_from_environment
from barograph.model.resume import ResumeOrder, ResumeResult, result_from_text
from barograph.model.settings import Settings, settings_from_mapping


@pytest.mark.parametrize(("value", "expected"), [
    (True, CheckpointSettings(auto=True)),
    (False, None),
    ("auto", CheckpointSettings(auto=True)),
    ("every=100", CheckpointSettings(every_steps=100)),
    ("10min", CheckpointSettings(every_minutes=10.0)),
    ({"every_steps": 5, "keep": 1, "on_sigterm": False}, CheckpointSettings(every_steps=5, keep=1, on_sigterm=False)),
])
def test_what_can_be_written(value, expected):
    assert checkpoints_from("checkpoints", value) == expected


@pytest.mark.parametrize(("value", "message"), [
    ("often", "must be auto, a number of steps"),
    ("10", "must be auto, a number of steps"),
    ("every=0", "at least 1"),
    ("0s", "above 0"),
    ("10 fortnights", "not a unit"),
    ({"every_step": 5}, 'Did you mean "every_steps"'),
    ({"every_steps": 0.5}, "an integer"),
    ({"keep": 0}, "at least 1"),
    ({"mtbf_hours": -1}, "above 0"),
    ({"auto": "yes"}, "true or false"),
    (7, "must be true, false, a string"),
])
def test_what_cannot_is_said(value, message):
    with pytest.raises((SettingsError, UnknownName), match=message):
        checkpoints_from("checkpoints", value)


def test_what_is_typed_is_the_cadence_and_the_file_has_the_rest():
    settings = with_cadence(CheckpointSettings(auto=True, keep=7), "every=3", name="--checkpoint")
    assert settings == CheckpointSettings(every_steps=3, keep=7)


def test_a_typed_cadence_that_is_none_is_named_as_it_was_typed():
    with pytest.raises(SettingsError, match='checkpoint-every is "often"'):
        with_cadence(None, "often", name="checkpoint-every")


def test_settings_orders_and_results_come_back():
    settings = Settings(checkpoints=CheckpointSettings(every_minutes=2.0))
    assert settings_from_mapping(json.loads(json.dumps(settings.to_json()))) == settings
    launch = Launch(settings, 1, resume=ResumeOrder("checkpoints/x.json", "there", inexact=True))
    assert launch_from_environment({LAUNCH_VARIABLE: launch.to_text()}) == launch
    result = ResumeResult(5, notes=("one", "two"), proof="the same")
    assert result_from_text(result.to_text()) == result
