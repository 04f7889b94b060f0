"""What is typed for a job, together with its job file and the settings file."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest
import typer

from barograph.cli.jobs import submit
from barograph.cli.jobs.submit_page import spec_of, submit_typed
from barograph.cli.record import run
from barograph.errors import BarographError, SettingsError
from barograph.jobs.home import JobsHome
from barograph.jobs.spec import JobSpec
from barograph.jobs.submitting import submit as submit_job


def spec_typed(**typed: Any) -> JobSpec:
    return spec_of({**dict.fromkeys(submit.command.__signature__.parameters), **typed})  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_typed_counts_more_than_the_job_file_and_that_more_than_the_settings_file(here: Path) -> None:
    (here / "barograph.toml").write_text('budget = "2%"\npreset = "free"\nflush_secs = 1.0\n')
    (here / "job.toml").write_text('command = ["train.py"]\ncpus = 2\nmemory = "1GiB"\n[data]\nval = "val"\n'
                                   '[settings]\nbudget = "off"\npreset = "moments"\n')
    spec = spec_typed(command=["job.toml", "lr=0.1"], budget="1%", cpus=3.0, data=["train=data"])
    assert (spec.settings["budget"], spec.settings["preset"], spec.settings["flush_secs"]) == (0.01, "moments", 1.0)
    assert (spec.cpus, spec.memory_bytes, spec.data) == (3.0, 2**30, {"val": "val", "train": "data"})
    assert spec.words == ("train.py", "--lr", "0.1")


def test_every_option_of_run_is_one_of_submit() -> None:
    ours = submit.command.__signature__.parameters  # type: ignore[attr-defined]
    assert inspect.signature(run.command).parameters.keys() - ours.keys() == {"checkpoint"}
    (other,) = ours["checkpoint_every"].annotation.__metadata__
    assert "--checkpoint" in other.param_decls


def test_a_wrong_setting_of_a_job_file_is_named(here: Path) -> None:
    (here / "job.toml").write_text('command = ["train.py"]\n[settings]\nbudgett = "off"\n')
    with pytest.raises(SettingsError, match=r'"budgett" is not a setting\. Did you mean "budget"\?'):
        spec_typed(command=["job.toml"])


@pytest.mark.parametrize(("option", "problem"), [
    ({"preset": "standart"}, '"standart" is not a preset. Did you mean "standard"?'),
    ({"set_": ["G101.actions=stopp"]}, 'rule_settings.G101.actions: there is no action "stopp". '
                                           'Did you mean "stop"?'),
    ({"capsule_on": "G101", "rules": "N101"}, "recorder.capsule_on names G101, but `rules` does not enable it. Add it "
                                              "to `rules`, or remove it from recorder.capsule_on."),
])
def test_settings_that_run_refuses_are_refused(
    option: dict[str, Any], problem: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text("")
    names = submit.command.__signature__.parameters  # type: ignore[attr-defined]
    typed = {**dict.fromkeys(names), "command": ["train.py"], **option}
    with pytest.raises(typer.Exit):
        submit_typed({**typed, "dry_run": True})
    assert f"problem: {problem}" in capsys.readouterr().out.replace("\n", " ")
    home = JobsHome(here / "home")
    with pytest.raises(BarographError) as caught:
        submit_job(spec_of(typed), to=str(here / "run"), home=home)
    assert str(caught.value) == problem
    assert home.all() == []


@pytest.mark.parametrize(("source", "command", "sent"), [
    ("images", "train.py", False), (".", "train.py", True), ("images", "images/train.py", True),
    ("images/0.png", "train.py", True), ("images", "train.py --dir images", True),
    ("images", "train.py --first=images/0.png", True), ("images", "train.py --image images2", False),
])
def test_data_beside_the_script_is_not_sent_with_the_code_too(
    here: Path, capsys: pytest.CaptureFixture[str], source: str, command: str, sent: bool
) -> None:
    (here / "images").mkdir()
    (here / "images" / "0.png").write_bytes(os.urandom(2**20))
    script, *_ = words = command.split()
    (here / script).write_text("")
    submit_typed({**dict.fromkeys(submit.command.__signature__.parameters),  # type: ignore[attr-defined]
                  "command": words, "data": [f"train={source}"], "dry_run": True})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line.startswith("code 1.0 MiB from ") for line in lines if line.startswith("code ")] == [sent]
    assert any('"images": only as the channel train.' in line for line in lines) != sent


def test_a_dry_run_shows_the_terms(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "train.py").write_text("")
    submit_typed({**dict.fromkeys(submit.command.__signature__.parameters),  # type: ignore[attr-defined]
                  "command": ["train.py"], "spot": True, "max_wait": "6h", "max_runtime": "90m", "price": 3.06,
                  "spot_price": 0.92, "dry_run": True})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "on 1 spot instance (local) with 1 CPU" in lines
    assert "time 1 h 30 min of training at most, 6 h 0 min including waiting at most" in lines
    assert "price 3.06 on demand, 0.92 spot per instance and hour" in lines


def test_a_dry_run_shows_what_runs_where_and_which_files_are_not_sent(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text("")
    (here / "weights.bin").write_bytes(bytes(11 * 2**20))
    with pytest.raises(typer.Exit):
        submit_typed({**dict.fromkeys(submit.command.__signature__.parameters),  # type: ignore[attr-defined]
                      "command": ["train.py", "a b", "{data.train}"], "instances": 2, "cpus": 0.5, "dry_run": True})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "runs train.py 'a b' '{data.train}'" in lines
    assert "on 2 instances (local), each with 0.5 CPUs" in lines
    assert 'note: "weights.bin": 11,534,336 bytes, more than 10,485,760. Pass data with --data.' in lines
    assert lines[-1] == "Nothing was started. Fix the problems, then submit without --dry-run."
