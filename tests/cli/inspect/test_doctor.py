"""`barograph doctor`: whole or not, and why."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]

KILLED = '''
import os, signal, sys, threading
import torch
import barograph
from barograph.runs.reading.reader import open as opened

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with barograph.attach(model, optimizer, to=sys.argv[1], watch=False, budget=None) as run:
    done = threading.Event()
    while not (done.is_set() or len(opened(sys.argv[1]).steps())):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()
    os.kill(os.getpid(), signal.SIGKILL)
'''


def test_a_whole_run_is_called_whole(call: Call, healthy: Path) -> None:
    said = call("doctor", healthy)

    assert said.code == 0
    assert said.lines[0] == "intact: every recorded file is present and readable."
    assert str(healthy) in said.out


def test_a_flipped_bit_is_named(call: Call, copy: Path, flip: Callable[[Path], Path]) -> None:
    victim = flip(copy)

    said = call("doctor", copy)

    assert said.code == 1
    assert said.lines[0].startswith("not intact: 1 damaged")
    assert victim.name in said.out


def test_a_file_that_went_is_missing(call: Call, copy: Path) -> None:
    for file in copy.glob("records/*/*"):
        file.unlink()

    said = call("doctor", copy, "--json")

    assert said.code == 1
    assert said.json["intact"] is False
    assert len(said.json["missing"]) >= 1


def test_a_foreign_file_is_named_and_harms_nothing(call: Call, copy: Path) -> None:
    (copy / "notes [draft].txt").write_text("mine")

    said = call("doctor", copy)

    assert said.code == 0
    assert "notes [draft].txt is not part of a run." in said.out


def test_a_run_without_its_first_paper_is_still_examined(call: Call, copy: Path) -> None:
    (copy / "run.json").unlink()

    said = call("doctor", copy)

    assert said.code == 1
    assert "run.json is missing." in said.out


def test_a_run_that_goes_on_is_whole_so_far(call: Call, tmp_path: Path, going_on: Callable[..., Any]) -> None:
    with going_on(tmp_path / "run"):
        said = call("doctor", tmp_path / "run")

    assert said.code == 0
    assert said.lines[0] == "intact so far: the run is still running."
    assert "Worker p0 in attempt 0 is running." in said.out


def test_a_run_that_nobody_has_written_yet_is_called_empty(call: Call, copy: Path) -> None:
    for folder in ("workers", "endings", "heartbeats", "records"):
        shutil.rmtree(copy / folder)

    said = call("doctor", copy)

    assert (said.code, said.lines[0]) == (0, "intact, and empty: no process has recorded anything yet.")


def test_a_training_that_was_killed_is_named(call: Call, tmp_path: Path) -> None:
    script, place = tmp_path / "killed.py", tmp_path / "run"
    script.write_text(KILLED)
    done = subprocess.run([sys.executable, script, place], check=False, timeout=600)
    assert done.returncode == -9

    said = call("doctor", place)

    assert said.code == 1
    assert "Worker p0 in attempt 0 was killed." in said.out
    assert "were lost when it was killed" in said.out


def test_many_sentences_are_cut_and_json_has_all(call: Call, copy: Path) -> None:
    for number in range(30):
        (copy / f"stray-{number:02d}").write_text("")

    assert "and 10 more (all: --json)" in call("doctor", copy).out
    assert len(call("doctor", copy, "--json").json["foreign"]) == 30
