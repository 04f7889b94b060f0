"""Studies of jobs by name: what is checked before one is stored, and before one is continued."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import BarographError, JobRefused, SettingsError, StudyChanged, StudyExists, TuneError
from barograph.jobs.home import JobsHome
from barograph.jobs.job import Job
from barograph.jobs.spec import JobSpec
from barograph.tune.job_studies import tune_job
from barograph.tune.space import Space
from barograph.tune.studies import create_study, found_study, open_studies
from barograph.tune.study import Study
from barograph.tune.study_home import StudyHome, check_study_name, new_study_name
from barograph.tune.trial_plan import TrialPlan
from barograph.tune.tuner import Tuner

SPACE = {"x": [1, 2]}


def created(folder: Path, spec: JobSpec, *, name: str = "study", **options: Any) -> Study:
    plan = TrialPlan(name, spec, (folder / "runs").as_uri())
    return create_study(plan, Space.from_mapping(SPACE), {"minimize": ["loss"], "jobs": 1, **options},
                        JobsHome(folder / "home"))


@pytest.mark.parametrize(("spec", "options", "error"), [
    (JobSpec(("train.py", "--api-key", "sk-abcdefghijklmnop1234567890")), {}, JobRefused),
    (JobSpec(("train.py",)), {"name": "../outside"}, SettingsError),
    (JobSpec(("train.py",)), {"name": "long" * 14}, SettingsError),
    (JobSpec(("train.py",)), {"max_cost": 5.0}, TuneError),
])
def test_a_wrong_study_is_not_stored(
    tmp_path: Path, spec: JobSpec, options: dict[str, Any], error: type[BarographError]
) -> None:
    with pytest.raises(error):
        created(tmp_path, spec, **options)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_cost_needs_a_price(tmp_path: Path) -> None:
    assert created(tmp_path, JobSpec(("train.py",), price=2.0), max_cost=5.0).spec.completion.cost == 5.0


def test_receivers_of_notifications_are_not_stored(tmp_path: Path) -> None:
    created(tmp_path, JobSpec(("train.py",), settings={"notify": [{"url": "https://hooks.example/T0KEN"}], "every": 2}))
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"T0KEN" not in stored
    assert b'"every"' in stored


@pytest.mark.parametrize(("command", "options", "message"), [
    ("other.py", {}, "the command was train.py, now other.py"),
    ("train.py", {"space": {"x": [1, 3]}}, "the space was x=1,2, now x=1,3"),
    ("train.py", {"maximize": ["score"]}, "the objective was minimize loss, now maximize score"),
])
def test_a_changed_study_of_jobs_is_not_continued(
    tmp_path: Path, command: str, options: dict[str, Any], message: str
) -> None:
    created(tmp_path, JobSpec(("train.py",)))
    with pytest.raises(StudyChanged) as caught:
        tune_job(Job([command]), options.pop("space", SPACE), name="study", home=JobsHome(tmp_path / "home"), **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("failed", [3, 5])
def test_the_same_call_tries_again_after_all_trials_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: int
) -> None:
    study = created(tmp_path, JobSpec(("train.py",)), jobs=3 if failed == 3 else 20)
    for number in range(failed):
        study.add({"x": 1 + number % 2}, failed="no such dataset")
    assert study.over
    monkeypatch.setattr(Tuner, "run", lambda tuner: tuner.study.add({"x": 1}, 0.5))
    again = tune_job(Job(["train.py"]), SPACE, name="study", home=JobsHome(tmp_path / "home"), trials=failed)
    assert (again.best.number, again.over) == (failed, "")


def test_a_call_whose_trials_all_fail_raises_the_common_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call() -> str:
        with pytest.raises(TuneError) as caught:
            tune_job(Job(["train.py"]), SPACE, name="study", home=JobsHome(tmp_path / "home"), trials=3)
        return str(caught.value)

    created(tmp_path, JobSpec(("train.py",)), jobs=3)
    monkeypatch.setattr(Tuner, "run", lambda tuner: [tuner.study.add({"x": 1}, failed="No such file.") for _ in "abc"])
    assert call() == "All 3 trials failed with: No such file. To list the trials:  barograph tune show study"
    monkeypatch.setattr(Tuner, "run", lambda tuner: [tuner.study.add({"x": 1}, failed=why) for why in ("OOM", "NaN")])
    assert call() == ("All 2 trials failed, 1 of them with: OOM. To list the trials:  barograph tune show study")


def test_a_study_has_its_name_before_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*arguments: Any, **options: Any) -> Study:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Study, "create", killed)
        with pytest.raises(KeyboardInterrupt):
            created(tmp_path, JobSpec(("train.py",)))
    home = JobsHome(tmp_path / "home")
    assert StudyHome(home).names() == ["study"]
    assert found_study("study", home) is None
    created(tmp_path, JobSpec(("train.py",)))
    assert found_study("study", home) is not None
    with pytest.raises(StudyExists, match="barograph tune resume study"):
        created(tmp_path, JobSpec(("train.py",)))


def test_two_studies_of_one_name_at_the_same_moment(tmp_path: Path) -> None:
    with StudyHome(JobsHome(tmp_path / "home")).lock("study") as is_ours:
        assert is_ours
        with pytest.raises(StudyExists):
            created(tmp_path, JobSpec(("train.py",)))
    created(tmp_path, JobSpec(("train.py",)))


def test_the_name_of_a_deleted_study_is_free(tmp_path: Path) -> None:
    created(tmp_path, JobSpec(("train.py",)))
    shutil.rmtree(tmp_path / "runs")
    assert created(tmp_path, JobSpec(("train.py",))).trials == []


def test_a_deleted_study_is_not_listed_but_one_that_cannot_be_reached_is(tmp_path: Path) -> None:
    created(tmp_path, JobSpec(("train.py",)))
    shutil.rmtree(tmp_path / "runs" / "studies" / "study")
    assert list(open_studies(JobsHome(tmp_path / "home"))) == []
    shutil.rmtree(tmp_path / "runs")
    assert [name for name, _ in open_studies(JobsHome(tmp_path / "home"))] == ["study"]


def test_a_study_that_was_deleted_from_a_bucket_is_not_listed(tmp_path: Path) -> None:
    StudyHome(JobsHome(tmp_path)).add("far", "memory://deleted/studies/far")
    assert list(open_studies(JobsHome(tmp_path))) == []


def test_a_refused_study_leaves_no_name(tmp_path: Path) -> None:
    with pytest.raises(TuneError):
        created(tmp_path, JobSpec(("train.py",)), strategy="best")
    assert StudyHome(JobsHome(tmp_path / "home")).names() == []


def test_a_job_that_cannot_run_takes_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JobRefused, match=r"No script at nothere\.py"):
        tune_job(Job(["nothere.py"]), SPACE, name="study", minimize=["loss"], home=JobsHome(tmp_path / "home"))
    assert StudyHome(JobsHome(tmp_path / "home")).names() == []


@pytest.mark.parametrize(("options", "message"), [
    ({"name": "a b"}, '"a b" cannot be the name of a study. Use at most 54 letters'),
    ({"name": "long" * 14}, "cannot be the name of a study"),
    ({"trials": 0}, "trials is 0; it must be above 0"),
    ({"patience": -1}, "patience is -1; it must be above 0"),
    ({"confirm": 1}, "confirm is 1"),
    ({"minimise": "loss"}, '"minimise" is not an option of a study. Did you mean "minimize"?'),
    ({"jobs": 4}, '"jobs" is not an option of a study. Did you mean "trials"?'),
    ({"n_trials": 4}, '"n_trials" is not an option of a study. Did you mean "trials"?'),
    ({"jobs": "4"}, '"jobs" is not an option of a study. Did you mean "trials"?'),
    ({"vary": ["x=1,2"]}, '"vary" is not an option of a study. Did you mean "space"?'),
    ({"metric": "loss=(x)"}, '"metric" is not an option of a study. Did you mean "patterns"?'),
    ({"metric": {"loss": "(x)"}}, '"metric" is not an option of a study. Did you mean "patterns"?'),
    ({"refit": True}, "a script decides itself which rows it trains on"),
])
def test_a_wrong_option_is_named_as_the_user_wrote_it(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BarographError) as caught:
        tune_job(Job(["train.py"]), SPACE, **{"name": "study", "minimize": "loss", **options},
                 home=JobsHome(tmp_path / "home"))
    assert message in str(caught.value)


def test_a_name_that_cannot_be_stored_is_an_error_and_no_study(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/studies").write_text("in the way")
    with pytest.raises(TuneError, match="Cannot store the names of studies"):
        created(tmp_path, JobSpec(("train.py",)))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("title", ["my script (1)", "-x", "..", "", "a" * 80])
def test_every_script_gives_a_name_of_a_study(title: str) -> None:
    check_study_name(new_study_name(title))


def test_a_study_starts_from_up_to_five_others_by_name(tmp_path: Path) -> None:
    for number in range(5):
        study = created(tmp_path, JobSpec(("train.py",)), name=f"parent-{number}")
        trial = study.ask()
        assert trial is not None
        study.tell(trial, float(number))
    names = [f"parent-{number}" for number in range(5)]
    child = created(tmp_path, JobSpec(("train.py",)), name="child", parent=names)
    assert len(Study.open(tmp_path / "runs/studies/child").heritage.trials) == 5
    assert child.trials == []
    for options in ({"parent": [*names, "child"]}, {"parent": ["nobody"]},
                    {"parent": names, "minimize": [], "maximize": ["loss"]}):
        with pytest.raises(BarographError):
            created(tmp_path, JobSpec(("train.py",)), name="refused", **options)
    assert "refused" not in StudyHome(JobsHome(tmp_path / "home")).names()
