"""Options may stand on either side of a place; what follows the script is the script's."""

from __future__ import annotations

import pytest

from barograph.cli.main import parsed
from barograph.cli.replay.after_place import options_first
from barograph.errors import SettingsError


@pytest.mark.parametrize(("words", "expected"), [
    (["run", "--try", "lr=1", "--pdb", "train.py", "--pdb"], {"try_": ["lr=1"], "pdb": True, "command": [
        "train.py", "--pdb"]}),
    (["--pdb", "run", "--try=lr=1"], {"try_": ["lr=1"], "pdb": True}),
    (["run", "python", "-m", "train", "--json"], {"as_json": False, "command": ["python", "-m", "train", "--json"]}),
    (["run", "--no-samples", "--", "--odd"], {"samples": False, "command": ["--odd"]}),
    (["run", "--to-script"], {"to_script": "-"}),
    (["run", "--to-script", "--json"], {"to_script": "-", "as_json": True}),
    (["run", "--to-script", "bug.py", "train.py"], {"to_script": "bug.py", "command": ["train.py"]}),
    (["--to-script", "bug.py", "run"], {"to_script": "bug.py"}),
])
def test_options_of_a_replay_are_read_on_either_side_of_the_capsule(words, expected):
    options = parsed("replay", words)
    assert options["capsule"] == "run"
    assert {name: options[name] for name in expected} == expected


def test_options_of_resume_are_read_on_either_side_of_the_run():
    options = parsed("resume", ["run", "--inexact", "train.py", "--own"])
    assert (options["run"], options["inexact"], options["own"]) == ("run", True, False)
    assert options["command"] == ["train.py", "--own"]


def test_an_option_that_there_is_not_is_refused_and_not_run():
    with pytest.raises(SettingsError, match="No such option: --bogus"):
        parsed("replay", ["run", "--bogus"])


def test_a_value_that_is_missing_is_left_to_who_reads_the_options():
    assert options_first(["run", "--try"], {"--try": True}, {}) == ["--try", "run"]
