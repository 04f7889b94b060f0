"""The live table of `barograph tune`, in narrow and wide terminals."""

from __future__ import annotations

import io
import math
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from barograph.cli.jobs.tune_view import StudyView
from barograph.jobs.spec import JobSpec
from barograph.model.clock import ManualClock
from barograph.tune.study import Study
from barograph.tune.trial_job import TrialProgress
from barograph.tune.trial_plan import TrialPlan

REASON = "The learning rate is too high: 2.5, since step 7"


def page(width: int, *, parameters: int = 0) -> str:
    space = {"learning_rate": (0.0, 1.0), "optimizer": ["[b]adam[/b]", "[b]sgd[/b]"],
             **{f"parameter_{number}": (0.0, 1.0) for number in range(parameters)}}
    study = Study.create(None, space, strategy="random", seed=1, maximize="val_accuracy", trials=40)
    for number in range(3):
        trial = study.ask()
        assert trial is not None
        if number == 1:
            study.stop(trial, f"{REASON}\nand details")
        study.tell(trial, 0.5 + number / 10)
    running: Any = SimpleNamespace(trial=study.ask(), progress=TrialProgress("training", 12345, 4, 0.512345))
    tuner: Any = SimpleNamespace(outage="", jobs={3: running})
    view = StudyView(study, TrialPlan("digits", JobSpec(("train.py",)), "file:///runs"))
    console = Console(width=width, file=io.StringIO())
    console.print(view._page(tuner, width))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("parameters", [0, 9])
def test_every_trial_has_its_number_state_value_and_reason(width: int, parameters: int) -> None:
    text = page(width, parameters=parameters)
    assert all(len(line) <= width for line in text.splitlines())
    rows = [line.split() for line in text.splitlines()]
    assert ["trial", "state", "val_accuracy", "learning_rate"] in [row[:4] for row in rows]
    for start in (["3", "training", "0.512"], ["2", "finished", "0.7"], ["1", "stopped", "0.6"]):
        assert start in [row[:3] for row in rows]
    assert "step 12,345, 4 values" in text
    assert REASON[:20] in text
    assert "and details" not in text


def test_what_users_write_is_no_markup() -> None:
    assert "[b]sgd[/b]" in page(200)
    assert "[b]" in page(200).partition("trial  state")[0]


def test_parameters_that_do_not_fit_are_counted() -> None:
    assert "hidden" not in page(200)
    assert "parameters hidden" in page(80, parameters=9)


def test_a_resumed_study_prints_only_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.create(None, {"x": [1, 2]}, strategy="grid", seed=1)
    study.tell(study.ask(), 1.0)  # type: ignore[arg-type]
    view = StudyView(study, TrialPlan("digits", JobSpec(("train.py",)), "file:///runs"))
    study.ask()
    view.draw(SimpleNamespace(outage="", jobs={}))  # type: ignore[arg-type]
    assert [line.partition(":")[2][:16] for line in capsys.readouterr().err.splitlines()] == [" trial 1 started"]


def test_a_trial_whose_job_has_a_problem_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.create(None, {"x": [1, 2]}, strategy="grid", seed=1)
    job: Any = SimpleNamespace(trial=study.ask(), progress=TrialProgress("training", 3, 1, 0.5, "The store is full."))
    tuner: Any = SimpleNamespace(outage="", jobs={0: job})
    view = StudyView(study, TrialPlan("digits", JobSpec(("train.py",)), "file:///runs"))
    for _ in range(3):
        view.draw(tuner)
    assert capsys.readouterr().err.count("barograph: trial 0: The store is full.") == 1
    console = Console(width=100, file=io.StringIO())
    console.print(view._page(tuner, 100))
    assert "The store is full." in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_trial_whose_job_waits_for_long_says_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    study, clock = Study.create(None, {"x": [1, 2]}, strategy="grid", seed=1), ManualClock()
    job: Any = SimpleNamespace(trial=study.ask(), progress=TrialProgress("queued", 0, 0, math.nan,
                                                                         waits="Waits for the Ray cluster."))
    tuner: Any = SimpleNamespace(outage="", jobs={0: job})
    view = StudyView(study, TrialPlan("digits", JobSpec(("train.py",)), "file:///runs"), clock=clock.monotonic)
    view.draw(tuner)
    clock.advance(29.0)
    view.draw(tuner)
    assert "Waits" not in capsys.readouterr().err
    clock.advance(1.0)
    view.draw(tuner)
    view.draw(tuner)
    assert capsys.readouterr().err == "barograph: trial 0: Waits for the Ray cluster.\n"
    console = Console(width=100, file=io.StringIO())
    console.print(view._page(tuner, 100))
    assert "Waits for the Ray cluster." in console.file.getvalue()  # type: ignore[attr-defined]
