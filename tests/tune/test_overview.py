"""Everything that a study found: numbers against values computed by hand."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import pytest

from barograph.cli.jobs.submit_page import spec_of
from barograph.cli.main import parsed
from barograph.jobs.spec import JobSpec
from barograph.model.clock import ManualClock
from barograph.tune import overview
from barograph.tune.confirmation import judged
from barograph.tune.overview import best_trial, overview_of, state_of, study_row, verdict_of
from barograph.tune.study import Study
from barograph.tune.study_events import EVENTS
from barograph.tune.trial import Cause, TrialState
from barograph.tune.trial_plan import TrialPlan


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(unix=1_000.0)


@pytest.fixture
def study(clock: ManualClock) -> Study:
    """Trials 0 to 5 end after 10, 20, 40, 50, 60, 70 s; trial 3 ends before trial 2."""
    study = Study.create(None, {"lr": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}, strategy="grid", seed=1, minimize="loss",
                         trials=7, clock=clock)
    for lr in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        study.give({"lr": lr})  # a grid is tried in random order
    first, second = study.ask(), study.ask()
    clock.advance(10)
    study.tell(first, 3.0)
    clock.advance(10)
    study.tell(second, failed="ValueError: no data")
    third, fourth = study.ask(), study.ask()
    clock.advance(20)
    study.tell(fourth, 1.0)
    clock.advance(10)
    study.tell(third, 2.0)
    fifth = study.ask()
    study.report(fifth, 1, 9.0)
    study.report(fifth, 4, 8.0)
    study.stop(fifth, "diverged: since step 4", cause=Cause.FINDING)
    clock.advance(10)
    study.tell(fifth)
    study.ask()
    return study


def test_the_best_so_far_is_counted_by_number_and_by_time(study: Study) -> None:
    found = overview_of(study, "mine")

    assert [(one.trial, one.secs, one.value) for one in found.best_by_trial] == [
        (0, 10.0, 3.0), (2, 50.0, 2.0), (3, 40.0, 1.0)]
    assert [(one.trial, one.secs, one.value) for one in found.best_by_time] == [(0, 10.0, 3.0), (3, 40.0, 1.0)]


def test_a_trial_has_its_times_its_last_report_and_its_reason(study: Study) -> None:
    stopped, running = overview_of(study, "mine").trials[4:]

    assert (stopped.state, stopped.cause, stopped.reason) == (TrialState.STOPPED, "finding", "diverged: since step 4")
    assert (stopped.started_secs, stopped.ended_secs, stopped.step, stopped.last) == (50.0, 60.0, 4, 8.0)
    assert (running.state, running.ended_secs, running.step) == (TrialState.RUNNING, None, None)
    assert math.isnan(running.last)


def test_the_verdict_names_the_best_trial_and_what_it_was_made_of(study: Study) -> None:
    assert verdict_of(study) == "Trial 3 is the best so far: loss 1 with lr=0.4."
    study.tell(5, 0.5)
    assert verdict_of(study) == "Trial 5 is the best of 6: loss 0.5 with lr=0.6."


def test_a_row_has_the_state_the_counts_and_the_best(study: Study) -> None:
    row = study_row("mine", study)

    assert (row.state, row.trials, row.finished, row.running, row.limit) == ("running", 6, 3, 1, 7)
    assert (row.best, row.best_trial, row.changed_unix) == (1.0, 3, 1_060.0)


def test_without_a_finished_trial_the_verdict_has_the_common_cause() -> None:
    study = Study.create(None, {"lr": (0.0, 1.0)}, strategy="random", seed=1, minimize="loss")
    assert verdict_of(study) == "No trial has started yet."
    study.ask()
    assert verdict_of(study) == "No trial has finished yet: 1 running."
    study.tell(0, failed="FileNotFoundError: data.csv")
    assert verdict_of(study) == "No trial finished. The only trial failed with: FileNotFoundError: data.csv"
    assert study_row("mine", study).best_trial is None
    study.end("no time is left")
    study.add({"lr": 0.9}, stopped="The learning rate is too high")
    assert verdict_of(study) == (
        "No trial finished: 1 stopped, 1 failed, 1 of them with: FileNotFoundError: data.csv")


def test_the_verdict_has_the_reason_why_all_trials_were_stopped() -> None:
    study = Study.create(None, {"lr": (0.0, 1.0)}, minimize="loss", trials=2)
    for lr in (0.8, 0.9):
        study.add({"lr": lr}, stopped="The learning rate is too high")
    assert verdict_of(study) == "No trial finished: 2 stopped: The learning rate is too high"


def test_several_objectives_have_a_front_instead_of_a_best() -> None:
    study = Study.create(None, {"x": [1, 2, 3]}, strategy="grid", maximize="accuracy", minimize="latency")
    for accuracy, latency in ((0.9, 5.0), (0.8, 2.0), (0.7, 3.0)):
        study.tell(study.ask(), (accuracy, latency))

    assert set(overview_of(study, "mine").front) == {0, 1}
    assert verdict_of(study) == "2 trials of 3 are on the Pareto front: no other trial is better in all objectives."


def test_a_region_that_fails_is_one_sentence() -> None:
    study = Study.create(None, {"lr": (0.0, 1.0), "width": (1, 9)}, strategy="random", seed=1, minimize="loss")
    for lr in (0.1, 0.2, 0.3, 0.8, 0.9, 1.0):
        study.add({"lr": lr, "width": 5}, lr, failed="diverged: loss 9" if lr > 0.5 else "")

    assert [part.text for part in overview_of(study, "mine").hopeless] == ["lr ≥ 0.8: 3 of 3: diverged"]


def test_the_best_trial_of_jobs_has_its_command_and_the_model_that_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TrialPlan("digits", JobSpec(("train.py", "--epochs", "3")), "file:///runs")
    study = Study.create(None, {"lr": [0.1, 0.2]}, strategy="grid", minimize="loss", details=plan.to_json())
    study.give({"lr": 0.1})
    study.tell(study.ask(job=plan.job_names), 1.0)

    best = overview_of(study, "digits").best
    assert best is not None
    assert best.command == "python train.py --epochs 3 --lr 0.1"
    assert (best.rerun, best.model) == ("barograph resubmit digits-000", "barograph wait digits-000 --model DIR")
    monkeypatch.setattr(overview, "has_model", lambda run: False)
    assert best_trial(study, study.best).model == ""


def test_a_confirmation_and_damaged_events_are_told(tmp_path: Path) -> None:
    study = Study.create(tmp_path, {"lr": [0.1, 0.2]}, strategy="grid", minimize="loss")
    study.tell(study.ask(), 1.0)
    study.tell(study.ask(), 2.0)
    study.confirm(judged(study.objective, {0: [1.0, 1.1, 0.9], 1: [2.0, 2.1, 1.9]}))
    (tmp_path / EVENTS / "00000004.json").write_text("{")

    found = overview_of(Study.open(tmp_path), "mine")

    assert found.confirmation is not None
    assert found.confirmation.sentence.startswith("trial 0 is better than trial 1")
    assert found.problems == ("1 event is damaged. Its trial may be missing or look unfinished.",)
    assert found.trials[1].state is TrialState.RUNNING


def test_the_answer_is_strict_json(study: Study) -> None:
    data = json.loads(json.dumps(overview_of(study, "mine").to_json(), allow_nan=False))

    assert data["trials"][5]["last"] is None
    assert data["trials"][0]["parameters"] == {"lr": 0.1}
    assert data["parameters"] == [{"name": "lr", "text": "0.1,0.2,0.3,0.4,0.5,0.6", "is_log": False,
                                   "choices": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}]


def test_a_study_that_its_user_ended_is_stopped() -> None:
    study = Study.create(None, {"x": [1, 2]}, strategy="grid", minimize="loss", trials=1)
    trial = study.ask()
    assert trial is not None
    assert state_of(study) == "running"
    study.tell(trial, 1.0)
    assert state_of(study) == "finished"
    study.end()
    assert state_of(study) == "stopped"


def test_a_study_whose_trials_all_failed_has_failed() -> None:
    study = Study.create(None, {"x": [1, 2]}, strategy="grid", minimize="loss", trials=1)
    trial = study.ask()
    assert trial is not None
    study.tell(trial, failed="no data")
    assert state_of(study) == "failed"
    study.end()
    assert state_of(study) == "stopped"


def test_the_command_of_an_algorithm_is_one_that_submits_it() -> None:
    spec = JobSpec(algorithm="xgboost", data={"train": "my houses.csv"}, target="price")
    details = TrialPlan("houses", spec, "file:///runs").to_json()
    study = Study.create(None, {"eta": [0.1, 0.2]}, strategy="grid", details=details)
    study.give({"eta": 0.1})
    study.tell(study.ask(job="houses-{number:03d}"), 0.5)
    command = shlex.split(best_trial(study, study.best).command)
    assert command[:2] == ["barograph", "submit"]
    submitted = spec_of(parsed("submit", command[2:]) or {})
    assert (submitted.algorithm, submitted.data, submitted.target) == (spec.algorithm, spec.data, spec.target)
    assert submitted.hyperparameters == {"eta": "0.1"}
