"""What `barograph tune show` says of a study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from barograph.cli.jobs.tune import GROUP
from barograph.cli.jobs.tune_page import _follow, list_all, resume_named, show_named
from barograph.errors import StoreFull, TuneError, UnknownName
from barograph.jobs.home import JobsHome
from barograph.jobs.spec import JobSpec
from barograph.model.clock import ManualClock
from barograph.tune import job_studies
from barograph.tune.confirmation import judged
from barograph.tune.spec import Completion
from barograph.tune.study import Study
from barograph.tune.study_home import StudyHome
from barograph.tune.trial import Refitted
from barograph.tune.trial_plan import TrialPlan
from barograph.tune.tuner import Tuner


def test_a_study_of_a_python_function_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.create(tmp_path / "mine", {"x": [1, 2]}, strategy="grid", seed=1)
    while trial := study.ask():
        study.tell(trial, float(trial.parameters["x"]))
    show_named(str(tmp_path / "mine"), as_json=False)
    out = capsys.readouterr().out
    assert "2 trials (2 finished)" in out
    assert "value 1 with x=1" in out
    assert "Strategy grid, seed 1. Trials proposed by: grid 2." in out
    assert "resubmit" not in out


def test_a_study_that_runs_elsewhere_is_shown_without_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study.create(tmp_path / "mine", {"x": [1, 2]}, strategy="grid", seed=1)
    study.ask()
    show_named(str(tmp_path / "mine"), as_json=False)
    assert "mine: 1 trial (1 running)\nNo trial has finished yet: 1 running." in capsys.readouterr().out
    study.tell(0, 1.0)
    show_named(str(tmp_path / "mine"), as_json=False)
    assert "mine: 1 trial (1 finished) in " in capsys.readouterr().out


def test_the_pareto_front_of_several_objectives_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.create(tmp_path / "two", {"x": [1, 2, 3]}, strategy="grid", maximize="score", minimize="latency")
    for score, latency in ((0.9, 3.0), (0.5, 1.0), (0.5, 2.0)):
        trial = study.ask()
        assert trial is not None
        study.tell(trial, {"score": score, "latency": latency})
    show_named(str(tmp_path / "two"), as_json=False)
    out = capsys.readouterr().out
    assert "trials 0, 1: no other is better in all objectives" in out
    assert "best score  trial 0: score 0.9, latency 3" in out


def test_a_study_that_ends_by_an_error_says_how_to_continue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise StoreFull("No space left.")

    plan = TrialPlan("digits", JobSpec(("train.py",)), tmp_path.as_uri())
    StudyHome(JobsHome(tmp_path / "home")).add("digits", str(tmp_path / "study"))
    Study.create(tmp_path / "study", {"x": [1, 2]}, strategy="grid", details=plan.to_json())
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Tuner, "run", full)
    with pytest.raises(StoreFull):
        resume_named("digits", jobs=None, parallel=None, as_json=False)
    assert "to continue the study:  barograph tune resume digits" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["digits-1a2b"], "digits-1a2b is a study. To show it:  barograph tune show digits-1a2b"),
    (["digits-1a2b", "--json"], "digits-1a2b is a study. To show it:  barograph tune show digits-1a2b"),
    (["lsit"], 'There is no subcommand "lsit". Did you mean "list"?'),
    (["shwo", "digits-1a2b"], 'There is no subcommand "shwo". Did you mean "show"?'),
])
def test_a_word_that_cannot_be_tuned_is_a_study_or_a_misspelled_command(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path))
    StudyHome(JobsHome()).add("digits-1a2b", str(tmp_path / "study"))
    with pytest.raises(UnknownName) as error:
        get_command(GROUP).make_context("tune", words)
    assert str(error.value) == message


@pytest.mark.parametrize("words", [["trainit"], ["env"], ["env", "FAST=1"], ["train", "--vary", "x=0..1"]])
def test_a_file_a_program_and_a_program_of_another_machine_can_be_tuned(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainit").write_text("#!/bin/sh")
    assert get_command(GROUP).make_context("tune", words).args[:1] == words[:1]


def test_a_reason_of_several_lines_takes_one_line_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study.create(tmp_path / "mine", {"x": [1, 2]}, strategy="grid", seed=1)
    trial = study.ask()
    assert trial is not None
    study.tell(trial, failed="ValueError: bad shape\nexpected 3")
    show_named(str(tmp_path / "mine"), as_json=False)
    table = capsys.readouterr().out.partition("\n\n")[0]
    assert "ValueError: bad shape" in table
    assert "expected 3" not in table


def test_the_common_cause_of_all_failures_is_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Study.create(tmp_path / "mine", {"x": (0.0, 1.0)}, strategy="random", seed=1)
    while trial := study.ask():
        study.tell(trial, failed="no such dataset")
    show_named(str(tmp_path / "mine"), as_json=False)
    assert capsys.readouterr().out.partition("\n\n")[2].count("no such dataset") == 1


@pytest.mark.parametrize("trials", [20, 5])
def test_a_study_of_which_all_trials_failed_says_how_to_try_again_and_does(
    trials: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TrialPlan("digits", JobSpec(("train.py",)), tmp_path.as_uri())
    study = Study.create(tmp_path / "digits", {"x": (0.0, 1.0)}, strategy="random", details=plan.to_json(),
                         trials=trials)
    while trial := study.ask(job=plan.job_names):
        study.tell(trial, failed="no such dataset")
    show_named(str(tmp_path / "digits"), as_json=False)
    assert f"retry  barograph tune resume {tmp_path}/digits, once the script is fixed" in capsys.readouterr().out
    monkeypatch.setattr(Tuner, "run", lambda tuner, seen: None)
    with pytest.raises(typer.Exit):
        resume_named(str(tmp_path / "digits"), as_json=False)
    assert f"continuing study digits: 5 of {trials + 5} trials ended" in capsys.readouterr().err


def test_what_an_interrupted_study_has_not_done_yet_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown() -> str:
        show_named(place, as_json=False)
        return next((line for line in capsys.readouterr().out.splitlines() if "tune resume" in line), "")

    plan, place = TrialPlan("digits", JobSpec(("train.py",)), tmp_path.as_uri(), confirm=3), str(tmp_path / "digits")
    how = f" If it was interrupted:  barograph tune resume {place}"
    study = Study.create(place, {"x": [1, 2]}, strategy="grid", details=plan.to_json(), trials=2)
    assert shown() == f"The study has not ended.{how}"
    while trial := study.ask(job=plan.job_names):
        study.tell(trial, 1.0)
    assert shown() == f"Not done yet: repetitions of trials 0 and 1.{how}"
    study.confirm(judged(study.objective, {0: [], 1: []}, {0: ["no --seed"], 1: ["no --seed"]}))
    assert shown() == f"Not done yet: repetitions of trials 0 and 1. Once the failure is fixed:  {how.split('  ')[1]}"
    study.confirm(judged(study.objective, {0: [1.0], 1: [1.0]}))
    assert shown() == ""


def test_the_list_and_the_json_name_a_state_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    StudyHome(JobsHome()).add("digits", str(tmp_path / "study"))
    Study.create(tmp_path / "study", {"x": [1, 2]}, strategy="grid")
    list_all(as_json=False)
    assert "digits\tstopped" in capsys.readouterr().out
    show_named("digits", as_json=True)
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"


def test_the_model_that_was_refitted_is_the_one_to_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = TrialPlan("houses", JobSpec(algorithm="linear", data={"train": "a.csv"}), tmp_path.as_uri(), refit=True)
    study = Study.create(tmp_path / "houses", {"alpha": [1.0, 2.0]}, strategy="grid", seed=1, details=plan.to_json())
    trial = study.ask(job=plan.job_names)
    assert trial is not None
    study.tell(trial, 0.5)
    study.set_refitted(Refitted(0, "houses-000-refit", 1442))
    show_named(str(tmp_path / "houses"), as_json=False)
    out = capsys.readouterr().out
    assert "barograph wait houses-000-refit --model DIR copies it; refitted on all 1,442 rows" in out


@pytest.mark.parametrize(("stops", "expected"), [(False, [0]), (True, [])])
def test_a_study_that_the_user_has_stopped_is_not_refitted(
    stops: bool, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refit(study: Study, plan: TrialPlan, home: JobsHome, *, say: object) -> Refitted:
        refitted.append(study.best.number)
        return Refitted(study.best.number, "houses-000-refit", 442)

    refitted = list[int]()
    monkeypatch.setattr(job_studies, "refit", refit)
    plan = TrialPlan("houses", JobSpec(algorithm="linear", data={"train": "a.csv"}), tmp_path.as_uri(), refit=True)
    study = Study.create(tmp_path / "houses", {"alpha": [1.0, 2.0]}, strategy="grid", seed=1, details=plan.to_json())
    while trial := study.ask(job=plan.job_names):
        study.tell(trial, 0.5)
    if stops:
        study.end()
    _follow(study, plan, JobsHome(tmp_path / "home"), as_json=True)
    assert refitted == expected


def test_the_number_of_trials_is_called_as_it_is_typed(tmp_path: Path) -> None:
    with pytest.raises(TuneError, match="jobs is 0; it must be above 0"):
        resume_named("digits", jobs=0, parallel=None, as_json=False)


def test_a_study_that_reached_its_time_limit_gets_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TrialPlan("digits", JobSpec(("train.py",)), tmp_path.as_uri())
    StudyHome(JobsHome(tmp_path / "home")).add("digits", str(tmp_path / "study"))
    clock = ManualClock()
    study = Study.create(tmp_path / "study", {"x": [1, 2]}, strategy="grid", details=plan.to_json(), clock=clock,
                         completion=Completion(secs=60.0))
    trial = study.ask()
    assert trial is not None
    clock.advance(70.0)
    study.tell(trial, 1.0)
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Tuner, "run", lambda tuner, seen: None)
    resume_named("digits", as_json=False)
    assert "no more trials: it reached its time limit of 1 min 0 s. --jobs and --max-time" in capsys.readouterr().err
    resume_named("digits", max_time="2m", as_json=False)
    assert Study.open(tmp_path / "study").spec.completion.secs == 120.0
    assert capsys.readouterr().err == "barograph: continuing study digits: 1 trial ended\n"


@pytest.mark.parametrize(("completion", "cost", "reason"), [
    (Completion(target=2.0), 0.0, "value reached the target of 2"),
    (Completion(cost=0.001), 0.002, "its trials cost 0.004 (limit 0.001)"),
    (Completion(patience=1), 0.0, "no improvement of value by 1% in 1 trials"),
    (Completion(trials=2, target=2.0), 0.0, "it reached its limit of 2 trials"),
])
def test_new_limits_are_offered_only_if_they_continue_the_study(
    completion: Completion, cost: float, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TrialPlan("digits", JobSpec(("train.py",)), tmp_path.as_uri())
    StudyHome(JobsHome(tmp_path / "home")).add("digits", str(tmp_path / "study"))
    study = Study.create(tmp_path / "study", {"x": [1, 2, 3]}, strategy="grid", details=plan.to_json())
    for _ in range(2):
        trial = study.ask()
        assert trial is not None
        study.tell(trial, 1.0, cost=cost)
    study.extend(completion)
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Tuner, "run", lambda tuner, seen: None)
    resume_named("digits", as_json=False)
    assert f"no more trials: {reason}.\n" in capsys.readouterr().err
