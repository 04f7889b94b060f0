"""Settings are refused at the start, with the nearest right one."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from barograph.errors import SettingsError
from barograph.model.key import Kind
from barograph.model.launch import LAUNCH_VARIABLE, Launch, launch_from_environment
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.settings import Settings, budget_from_text, selection_from_mapping, settings_from_mapping
from barograph.model.settings_file import settings_from_file
from barograph.model.step import Mode

FULL = Settings(
    to="s3://bucket/run", rules=("G101",), on_finding="stop", budget=None, preset="exact", strict=True,
    collections=(
        Selection(name="biases", kinds=frozenset({Kind.WEIGHT}), include=("*.bias",), exclude=("head.*",),
                  layers=frozenset({"Linear"}), histogram=Histogram.EXACT, units=True, raw=True,
                  schedule=Schedule(every=5, start=2, end=90, steps=frozenset({1}), modes=frozenset({Mode.TRAIN}))),
    ),
    rule_settings={"G101": {"threshold": 1e-8}}, keep_last=100, max_bytes=10**9,
)


def test_parameters_of_rules_that_stand_among_the_names_of_rules_are_shown_their_place() -> None:
    with pytest.raises(SettingsError, match=r"\[rule_settings\.dead-relu\]"):
        settings_from_mapping({"rules": {"dead-relu": {"threshold_layer": 0.3}}})


def test_settings_come_back_from_json():
    assert settings_from_mapping(json.loads(json.dumps(FULL.to_json()))) == FULL


def test_a_launch_comes_back_from_the_environment():
    launch = Launch(FULL, 3, (Selection(kinds=frozenset({Kind.LOSS})),))
    assert launch_from_environment({LAUNCH_VARIABLE: launch.to_text()}) == launch


def test_no_launch_in_an_environment_without_one():
    assert launch_from_environment({}) is None


def test_a_broken_launch_is_refused():
    with pytest.raises(SettingsError, match=LAUNCH_VARIABLE):
        launch_from_environment({LAUNCH_VARIABLE: '{"settings": {}}'})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"bugdet": 0.1}, 'Did you mean "budget"'),
        ({"budget": "lots"}, "must be a share"),
        ({"budget": 0}, "above 0"),
        ({"budget": 2.0}, "at most 1"),
        ({"budget": True}, "must be a number"),
        ({"on_finding": "halt"}, "There are: capsule, checkpoint-then-stop, lower-lr, notify, skip-step, stop"),
        ({"strict": "yes"}, "true or false"),
        ({"keep_last": -1}, "above 0"),
        ({"keep_last": 1.5}, "an integer"),
        ({"flush_secs": 0}, "above 0"),
        ({"rules": 5}, "list of strings"),
        ({"to": 5}, "must be a string"),
        ({"collections": ["weights"]}, "must be tables"),
        ({"collections": {"a": {}}}, "has no kinds"),
        ({"collections": {"a": {"kinds": ["weigth"]}}}, 'Did you mean "weight"'),
        ({"collections": {"a": {"kinds": ["weight"], "evry": 1}}}, 'Did you mean "every"'),
        ({"collections": {"a": {"kinds": ["weight"], "every": -1}}}, "0 \\(only the listed steps\\) or more"),
        ({"collections": {"a": {"kinds": ["weight"], "start": 5, "end": 5}}}, "after start"),
        ({"collections": {"a": {"kinds": ["weight"], "modes": ["training"]}}}, 'Did you mean "train"'),
        ({"collections": {"a": {"kinds": ["weight"], "histogram": "full"}}}, "histogram"),
        ({"rule_settings": {"G101": 3}}, "must be tables"),
    ],
)
def test_what_is_wrong_is_named(data, message):
    with pytest.raises(SettingsError, match=message):
        settings_from_mapping(data)


@pytest.mark.parametrize(("text", "budget"), [("0.02", 0.02), ("2%", 0.02), (" 100% ", 1.0), ("off", None)])
def test_a_budget_as_people_write_it(text, budget):
    assert budget_from_text(text) == budget


def test_what_is_said_comes_before_what_was():
    base = Settings(budget=0.5, preset="exact")
    assert settings_from_mapping({"budget": "off"}, base=base) == Settings(budget=None, preset="exact")


def test_a_collection_with_everything_left_out_is_every_step_of_every_mode():
    selection = selection_from_mapping("all", {"kinds": ["weight"]})
    assert selection == Selection(name="all", kinds=frozenset({Kind.WEIGHT}))


def test_a_file_of_settings(tmp_path):
    path = tmp_path / "barograph.toml"
    path.write_text('budget = "3%"\n[collections.biases]\nkinds = ["weight"]\ninclude = "*.bias"\n')
    settings = settings_from_file(path)
    assert settings.budget == 0.03
    assert settings.collections[0].include == ("*.bias",)


@pytest.mark.parametrize(
    ("text", "message"), [("budget = ", "not valid TOML"), ('preset = "x"\nbadget = 1', 'Did you mean "budget"')]
)
def test_a_file_with_a_fault_is_named_with_its_path(tmp_path, text, message):
    path = tmp_path / "barograph.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        settings_from_file(path)
    assert str(path) in str(caught.value)


def of_binary(path: Path) -> None:
    path.write_bytes(b'budget = "\xff"')


def of_directory(path: Path) -> None:
    path.mkdir()


def of_pipe(path: Path) -> None:
    os.mkfifo(path)


def of_broken_link(path: Path) -> None:
    path.symlink_to("nowhere.toml")


@pytest.mark.parametrize(("make", "message"), [
    (of_binary, "The settings file is not text in UTF-8: byte 10 is 0xff. Save it as UTF-8, or name another file with "
                "--config ("),
    (of_directory, "The settings file is a directory. Rename it, or name a file with --config ("),
    (of_pipe, "The settings file is not a regular file. Rename it, or name a file with --config ("),
    (of_broken_link, "No settings file at "),
])
def test_what_is_no_settings_file_is_said_in_one_message(
    tmp_path: Path, make: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / "barograph.toml"
    make(path)

    with pytest.raises(SettingsError) as raised:
        settings_from_file(path)

    assert str(raised.value).startswith(message)
    assert str(path) in str(raised.value)


def test_a_settings_file_that_may_not_be_read_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "barograph.toml"
    path.write_text("budget = 0.1")

    def refused(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)

    with pytest.raises(SettingsError, match=r"Cannot read the settings file: Permission denied\. Make it readable"):
        settings_from_file(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match="No settings file"):
        settings_from_file(tmp_path / "none.toml")


def test_rules_may_be_named_in_one_text_as_on_the_command_line() -> None:
    assert settings_from_mapping({"rules": "all, -overfit"}).rules == ("all", "-overfit")
