"""A script with uncommitted changes is run, then changed, and its run is repeated from the recorded data."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from barograph.runs.state.origins import read_origin
from barograph.store.urls import store_from_url
from forking import TORCH

FORKED = TORCH

COMMITTED = "raise SystemExit('this was never run')\n"
CHANGED = '''
import argparse
import helper

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.5)
parser.add_argument("--data", default="data/numbers.txt")
parser.add_argument("--input-scale", dest="scale", type=float, default=1.0)
arguments = parser.parse_args()
for group in optimizer.param_groups:
    group["lr"] = arguments.lr
scale = float(open(arguments.data).read()) * arguments.scale
inputs *= scale
for step in range(helper.STEPS):
    train_step()
print("weights", model[0].weight.sum().item())
'''


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def ruined(make_desk: Any) -> Any:
    """A desk with a run, of whose origin only the repository and the data are left."""
    desk = make_desk("repository")
    git(desk.folder, "init", "--quiet")
    desk.write("train.py", COMMITTED)
    desk.write(".gitignore", "data/\nruns/\n")
    git(desk.folder, "add", "--all")
    git(desk.folder, "commit", "--quiet", "--message", "first")
    desk.script(CHANGED)
    desk.write("helper.py", "STEPS = 12\n")
    desk.write("data/numbers.txt", "1.5\n")
    ended = desk.run("--budget", "off", "train.py", "--lr", "0.05", to="runs/first")
    assert ended.code == 0, ended.err
    desk.write("train.py", "this is no Python\n")
    (desk.folder / "helper.py").unlink()
    return desk


def verdict(desk: Any, *words: str) -> tuple[int, dict[str, Any]]:
    ended = desk.end(desk.start("barograph", "rerun", "runs/first", *words, "--json"))
    assert ended.out, ended.err
    return ended.code, json.loads(ended.out)


def test_a_rerun_is_identical_and_names_the_original_run(ruined: Any) -> None:
    code, said = verdict(ruined, "--to", "runs/again")
    assert (code, said["sameness"], said["causes"]) == (0, "identical", [])
    assert said["numbers"]["compared"] > 100
    first = ruined.open("runs/first").manifest
    again = read_origin(store_from_url(str(ruined.folder / "runs" / "again")))
    assert again is not None
    assert again.derived_from == first.run_id
    assert (ruined.folder / "train.py").read_text() == "this is no Python\n"
    assert git(ruined.folder, "worktree", "list").count("\n") == 1


def test_defaults_that_nobody_typed_are_parameters_and_can_be_changed(ruined: Any) -> None:
    origin = read_origin(store_from_url(str(ruined.folder / "runs" / "first")))
    assert origin is not None
    assert (origin.parameters, origin.flags["scale"]) == (
        {"lr": 0.05, "data": "data/numbers.txt", "scale": 1.0}, ("--input-scale",))
    code, said = verdict(ruined, "scale=2", "--to", "runs/scaled")
    assert (code, said["sameness"]) == (1, "different")
    assert [(cause["name"], cause["first"], cause["second"]) for cause in said["causes"]] == [("scale", "1.0", "2.0")]


def test_a_rerun_with_another_learning_rate_diverges_at_the_first_step(ruined: Any) -> None:
    code, said = verdict(ruined, "lr=0.1", "--to", "runs/other")
    assert (code, said["sameness"]) == (1, "different")
    assert [(cause["what"], cause["name"], cause["first"], cause["second"]) for cause in said["causes"]] == [
        ("parameters", "lr", "0.05", "0.1")]
    assert (said["numbers"]["parts"]["step"], said["numbers"]["parts"]["key"]) == (0, "learning_rate:group0")
    # The first loss is that of the same weights.
    assert said["numbers"]["loss_parts"]["step"] == 1


def test_the_code_can_be_checked_out(ruined: Any) -> None:
    ended = ruined.end(ruined.start("barograph", "checkout", "runs/first", "-o", "out"))
    assert ended.code == 0, ended.err
    assert ended.text.strip() == str(ruined.folder / "out")
    assert (ruined.folder / "out" / "helper.py").read_text() == "STEPS = 12\n"
    assert "numpy==" in (ruined.folder / "out" / "barograph-environment.txt").read_text()
    again = ruined.end(ruined.start("barograph", "checkout", "runs/first", "-o", "out"))
    assert (again.code, again.err.count("\n")) == (2, 1)


def test_an_invalid_change_is_rejected(ruined: Any) -> None:
    ended = ruined.end(ruined.start("barograph", "rerun", "runs/first", "lr"))
    assert (ended.code, ended.err) == (2, 'barograph: "lr" is not a change; write NAME=VALUE, as in lr=0.1.\n')
