"""Settings of the probe."""

from __future__ import annotations

import pytest

from barograph.cli.record.run import settings_of
from barograph.errors import SettingsError, UnknownName
from barograph.model.probe import ProbeSettings, output_key, probe_from, subject_in
from barograph.model.settings import Settings, settings_from_mapping


@pytest.mark.parametrize(("value", "expected"), [
    (None, None), (False, None), (0, None), (True, ProbeSettings()), (40, ProbeSettings(samples=40)),
    ({"layer": "fc1", "saliency": 3}, ProbeSettings(layer="fc1", saliency=3)),
    ({"input_bytes": "1MiB", "saliency_methods": "smoothgrad"},
     ProbeSettings(input_bytes=2**20, saliency_methods=("smoothgrad",))),
])
def test_a_number_or_a_table_is_read(value, expected):
    assert probe_from("probe", value) == expected


@pytest.mark.parametrize(("value", "error", "says"), [
    ("many", SettingsError, "a number of samples or a table"), (-3, SettingsError, "from 1 to 10000"),
    ({"sample": 3}, UnknownName, 'Did you mean "samples"'), ({"saliency": 100}, SettingsError, "from 0 to 64"),
    ({"layer": 3}, SettingsError, "path of a module"), ({"saliency_methods": ["smothgrad"]}, UnknownName, "smoothgrad"),
    ({"saliency_methods": []}, SettingsError, "list of methods"),
])
def test_anything_else_is_refused_in_a_sentence(value, error, says):
    with pytest.raises(error, match=says):
        probe_from("probe", value)


def test_settings_survive_json():
    settings = settings_from_mapping({"probe": {"samples": 7, "saliency": 2}})
    assert settings_from_mapping(settings.to_json()).probe == ProbeSettings(samples=7, saliency=2)
    assert Settings().to_json()["probe"] is None


def test_options_of_the_command_line_are_settings():
    typed = dict.fromkeys(("to", "on_finding", "budget", "preset", "strict", "findings_to", "trace", "origin",
                           "experiment", "trial", "rules", "allow", "notify", "tag", "set_", "config", "checkpoint",
                           "record", "capsule_on"))
    found = settings_of({**typed, "probe": 30, "probe_layer": "fc1", "saliency": 4}).probe
    assert found == ProbeSettings(samples=30, layer="fc1", saliency=4)
    assert settings_of(typed).probe is None


def test_a_key_says_what_it_is_of():
    assert subject_in(output_key("a[0].fc"), "output") == "a[0].fc"
    assert subject_in(output_key("fc"), "saliency") is None
