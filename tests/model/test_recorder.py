"""How the flight recorder is set."""

from __future__ import annotations

import json

import pytest

from barograph.errors import SettingsError
from barograph.model.recorder import RecorderSettings, recorder_from

ALL = RecorderSettings("skip", 3, 5.0, 6.5, "checks:hold", 4, ("G101", "dead-relu"), True)


def hold(update):
    return True


def test_it_is_off_on_or_a_table():
    assert recorder_from("recorder", None) is recorder_from("recorder", False) is None
    assert recorder_from("recorder", True) == RecorderSettings()
    told = recorder_from("recorder", {"then": "skip", "at_most": 3, "norm_above": 5, "loss_above": 6.5, "ring": 4,
                                      "when": "checks:hold", "pickle": True, "capsule_on": "G101, dead-relu"})
    assert told == ALL
    assert recorder_from("recorder", told) is told


@pytest.mark.parametrize("settings", [RecorderSettings(), ALL])
def test_it_comes_back_from_json(settings):
    assert recorder_from("recorder", json.loads(json.dumps(settings.to_json()))) == settings


def test_a_function_is_written_as_where_it_is():
    assert RecorderSettings(when=hold).to_json()["when"] == f"{__name__}:hold"


@pytest.mark.parametrize(("value", "message"), [
    (3, "must be true, false, or a table"),
    ({"thn": "stop"}, '"thn" is not a setting of recorder. Did you mean "then"'),
    ({"then": "halt"}, 'recorder.then is "halt"'),
    ({"pickle": 1}, "recorder.pickle is 1; it must be true or false"),
    ({"at_most": -1}, "must be an integer, at least 0"),
    ({"at_most": True}, "must be an integer"),
    ({"norm_above": 0}, "must be a number above 0"),
    ({"loss_above": "5"}, "must be a number above 0"),
    ({"loss_above": float("inf")}, "must be a number above 0"),
    ({"when": "checks"}, 'it must be a function, or the name of one: "module:function"'),
    ({"when": "checks:"}, "it must be a function"),
    ({"when": "../checks:hold"}, "it must be a function"),
    ({"when": 3}, "it must be a function"),
    ({"ring": -1}, "recorder.ring is -1; it must be an integer"),
    ({"capsule_on": 3}, "recorder.capsule_on is 3; it must be a list of rules"),
    ({"capsule_on": [3]}, "must be a list of rules"),
])
def test_what_is_wrong_is_named(value, message):
    with pytest.raises(SettingsError, match=message):
        recorder_from("recorder", value)
