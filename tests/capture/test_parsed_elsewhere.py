"""What absl and Hydra made of the command line is heard as what argparse did is, and can be set for another run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.capture.interpolation import leaves_of
from barograph.capture.parsed import Parsed
from barograph.model.origin import Option, Origin, with_options
from barograph.provenance.parameters import parameters_of, replaced
from real_hydra import Unavailable, python_with_hydra

SCRIPT = Path(__file__).parent.parent / "hydra_script.py"


@pytest.fixture
def parsed() -> Iterator[Parsed]:
    begun = Parsed()
    yield begun
    begun.stop()


def flags_of_a_training() -> Any:
    flags = pytest.importorskip("absl.flags")
    values = flags.FlagValues()
    flags.DEFINE_float("lr", 0.1, "", short_name="l", flag_values=values)
    flags.DEFINE_bool("amp", True, "", flag_values=values)
    flags.DEFINE_list("sizes", ["1", "2"], "", flag_values=values)
    flags.DEFINE_string("nothing", None, "", flag_values=values)
    return values


ABSL = {"lr": Option(0.5, ("--lr", "--l")), "amp": Option(True, ("--amp", "--noamp")),
        "sizes": Option(["1", "2"], ("--sizes",))}


def test_flags_of_absl_are_heard_with_their_defaults(parsed: Parsed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--lr=0.5"])
    values = flags_of_a_training()
    assert values(sys.argv) == ["train.py"]
    assert (values.lr, parsed.options) == (0.5, ABSL)


def test_flags_that_a_library_parses_for_itself_and_those_of_absl_are_passed_over(
    parsed: Parsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    flags_of_a_training()(["inner", "--lr=2"])
    assert parsed.options == {}
    app = pytest.importorskip("absl.app")
    app.call_after_init  # noqa: B018 - absl's own flags are there
    from absl import flags

    flags.FLAGS(sys.argv)
    assert not {"logtostderr", "verbosity", "pdb", "help"} & parsed.options.keys()


def test_tables_in_flags_are_heard_entry_by_entry(parsed: Parsed, monkeypatch: pytest.MonkeyPatch) -> None:
    collections = pytest.importorskip("ml_collections")
    from ml_collections import config_flags

    flags = pytest.importorskip("absl.flags")
    monkeypatch.setattr(sys, "argv", ["train.py", "--config.model.depth=4"])
    values = flags.FlagValues()
    table = collections.ConfigDict({"lr": 0.1, "model": {"depth": 2}})
    config_flags.DEFINE_config_dict("config", table, flag_values=values)
    values(sys.argv)
    assert parsed.options["config.lr"] == Option(0.1, ("--config.lr=",))
    assert parsed.options["config.model.depth"].value == 4
    words = replaced(sys.argv, {"config.lr": "0.2"}, {name: it.flags for name, it in parsed.options.items()})
    assert words == ["train.py", "--config.model.depth=4", "--config.lr=0.2"]


def test_nothing_stays_behind_in_absl() -> None:
    flags = pytest.importorskip("absl.flags")
    before = flags.FlagValues.__call__
    begun = Parsed()
    assert flags.FlagValues.__call__ is not before
    begun.stop()
    assert flags.FlagValues.__call__ is before


@pytest.mark.parametrize(("typed", "changes", "words", "then"), [
    (["--amp=true", "--lr", "1"], {"amp": "false"}, ["--lr", "1", "--noamp"], (False, 1.0)),
    (["-noamp"], {"amp": "true", "lr": "0.2"}, ["--amp", "--lr", "0.2"], (True, 0.2)),
    (["-lr=3"], {"lr": "0.2"}, ["-lr=0.2"], (True, 0.2)),
])
def test_flags_of_absl_can_be_set(typed: list[str], changes: dict[str, str], words: list[str], then: object) -> None:
    made = replaced(["train.py", *typed], changes, {name: option.flags for name, option in ABSL.items()})
    assert made == ["train.py", *words]
    values = flags_of_a_training()
    values(made)
    assert (values.amp, values.lr) == then


def hydra(folder: Path, *words: str) -> dict[str, Any]:
    try:
        python = python_with_hydra()
    except Unavailable as error:
        pytest.skip(str(error))
    source = Path(__file__).parent.parent.parent / "src"
    done = subprocess.run([python, SCRIPT, *words], cwd=folder, capture_output=True, text=True, check=False,
                          timeout=600, env={**os.environ, "PYTHONPATH": str(source)})
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "heard.json").read_text())
    return found


def test_the_configuration_of_hydra_is_heard_and_can_be_set(tmp_path: Path) -> None:
    words = ["optimizer.lr=0.5", "+extra=x"]
    said = hydra(tmp_path, *words)
    assert {name: value for name, (value, _) in said["heard"].items()} == {
        "epochs": 3, "amp": True, "dim": 8, "name": "width-8", "started": "${now:%Y}", "layers.0.size": 8,
        "layers.0.act": "relu", "layers.1.size": 16, "layers.1.act": "relu", "betas": [0.9, 0.5], "optimizer.lr": 0.5,
        "optimizer.nesterov": False, "extra": "x"}
    assert said["left"] == "hydra.core.utilsFalse"
    options = {name: Option(value, tuple(flags)) for name, (value, flags) in said["heard"].items()}
    origin = with_options(Origin(parameters=parameters_of(["train.py", *words])), options)
    assert (origin.parameters["optimizer.lr"], origin.parameters["extra"], len(origin.parameters)) == (0.5, "x", 13)
    made = replaced(["train.py", *words], {"optimizer.lr": "0.25", "amp": "false", "epochs": "9", "layers.0.size": "4",
                                           "extra": "y", "optimizer": "adam"}, origin.flags)
    assert made == ["train.py", "optimizer.lr=0.25", "+extra=y", "amp=false", "epochs=9", "layers.0.size=4",
                    "optimizer=adam"]
    [given] = hydra(tmp_path, *made[1:])["given"]
    assert (given["optimizer"], given["amp"], given["epochs"], given["layers"][0]["size"], given["extra"]) == (
        {"lr": 0.25}, False, 9, 4, "y")


def test_of_several_jobs_of_hydra_the_words_are_what_is_known(tmp_path: Path) -> None:
    said = hydra(tmp_path, "-m", "dim=1,2")
    assert ([given["dim"] for given in said["given"]], said["heard"]) == ([1, 2], {})


@pytest.mark.parametrize(("table", "expected"), [
    ({"a": "${b}", "b": "${a}"}, [("a", "${b}"), ("b", "${a}")]),
    ({"a": "${none}", "b": "x ${none} ${c}", "c": 0}, [("a", "${none}"), ("b", "x ${none} 0"), ("c", 0)]),
    ({"a": {"b": "${.c}", "c": "${..d}"}, "d": [1]}, [("a.b", [1]), ("a.c", [1]), ("d", [1])]),
    ({"a": "${a.b}", "x": {}}, [("a", "${a.b}")]),
    ({"a": "secret ${oc.env:TOKEN}"}, [("a", "secret ${oc.env:TOKEN}")]),
])
def test_references_are_followed_and_nothing_is_computed(table: Any, expected: list[Any]) -> None:
    assert list(leaves_of(table)) == expected


def test_a_table_that_holds_itself_ends() -> None:
    table: dict[str, Any] = {"a": 1, "self": "${above}", "above": {"below": "${above}"}}
    assert ("a", 1) in list(leaves_of(table))


def test_references_that_double_each_other_stay_as_they_are_written() -> None:
    table: dict[str, object] = {f"a{number}": f"${{a{number + 1}}}${{a{number + 1}}}" for number in range(45)}
    found = dict(leaves_of({**table, "a45": "x"}))
    assert found["a40"] == "x" * 32
    assert all(len(str(value)) <= 100_000 for value in found.values())
