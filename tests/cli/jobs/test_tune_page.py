"""What `barograph tune show` says of a study."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.cli.jobs.tune_page import show_named
from barograph.tune.study import Study


def test_a_study_of_a_python_function_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.create(tmp_path / "mine", {"x": [1, 2]}, strategy="grid", seed=1)
    while trial := study.ask():
        study.tell(trial, float(trial.parameters["x"]))
    show_named(str(tmp_path / "mine"), as_json=False)
    out = capsys.readouterr().out
    assert "2 trials (2 finished)" in out
    assert "value 1 with x=1" in out
    assert "Strategy grid, seed 1. Trials proposed by: the grid 2." in out
    assert "resubmit" not in out


def test_the_pareto_front_of_several_objectives_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.create(tmp_path / "two", {"x": [1, 2, 3]}, strategy="grid", maximize="score", minimize="latency")
    for score, latency in ((0.9, 3.0), (0.5, 1.0), (0.5, 2.0)):
        trial = study.ask()
        assert trial is not None
        study.tell(trial, {"score": score, "latency": latency})
    show_named(str(tmp_path / "two"), as_json=False)
    assert "trials 0, 1: no other is better in all objectives" in capsys.readouterr().out
