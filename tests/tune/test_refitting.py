"""The model of a study of a built-in algorithm: the best trial, trained again on all rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import ClusterUnavailable, StoreError, StoreFull, StoreUnavailable, TuneError
from barograph.experiments.run import Run
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, SPEC, STOP, EventLog, log_folder
from barograph.jobs.job_report import JobView
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.jobs.submitting import Submitted
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from barograph.tune import job_studies, refitting
from barograph.tune.autotune import refits
from barograph.tune.job_studies import stop_study, train_more
from barograph.tune.later_jobs import refit_job, trial_job_of
from barograph.tune.metric_values import MetricValues
from barograph.tune.overview import best_trial
from barograph.tune.refitting import refit
from barograph.tune.study import Study
from barograph.tune.trial import Refitted
from barograph.tune.trial_job import submitted
from barograph.tune.trial_plan import TrialPlan

JOB = JobSpec(algorithm="xgboost", target="price", data={"train": "houses.csv"})


def never(secs: float) -> None:
    raise AssertionError("nothing is to be waited for")


def never_said(text: str) -> None:
    raise AssertionError(text)


class Jobs:
    """Jobs that end at once; without a phase, they wait."""

    def __init__(self, folder: Path, phase: str = "finished", reason: str = "") -> None:
        self.home, self.specs = JobsHome(folder / "home"), list[JobSpec]()
        self._phase, self._reason = phase, reason

    def submit(self, spec: JobSpec, *, to: str, home: JobsHome) -> Submitted:
        self.specs.append(spec)
        store = store_from_url(to)
        write_submission(store, Submission(spec.name, spec))
        log = EventLog(store, EVENTS)
        log.append("submitted")
        if self._phase:
            log.append("over", phase=self._phase, reason=self._reason)
        home.add(JobRecord(spec.name, to, time.time_ns(), "local"), {})
        return Submitted(spec.name, store)


def study_of(folder: Path) -> tuple[Study, TrialPlan]:
    plan = TrialPlan("houses", JOB, (folder / "runs").as_uri(), refit=True)
    study = Study.create(folder / "study", {"eta": [0.1, 0.2]}, strategy="grid", minimize="loss", trials=2,
                         details=plan.to_json())
    while trial := study.ask(job=plan.job_names):
        study.tell(trial, trial.parameters["eta"])  # type: ignore[arg-type]
    return study, plan


def test_the_best_trial_is_trained_again_once(tmp_path: Path) -> None:
    study, plan = study_of(tmp_path)
    jobs = Jobs(tmp_path)
    for _ in range(2):  # as after a kill of the tuner
        study.set_refitted(refit(study, plan, jobs.home, submit=jobs.submit, ensure=lambda home: None, wait=never))
    best = study.best.job
    assert [spec.name for spec in jobs.specs] == [f"{best}-refit"]
    assert jobs.specs[0].hyperparameters == {"eta": "0.1", "refit": "yes"}
    reopened = Study.open(tmp_path / "study")
    assert reopened.about()[-1] == f"The model of trial {study.best.number} was refitted on all rows ({best}-refit)."
    assert reopened.refitted == Refitted(study.best.number, f"{best}-refit", 0)
    assert best_trial(reopened, reopened.best).model == f"barograph wait {best}-refit --model DIR"


def test_a_study_that_is_stopped_while_its_best_trial_is_refitted_stops_that_job(tmp_path: Path) -> None:
    study, plan = study_of(tmp_path)
    jobs = Jobs(tmp_path, "")
    assert stop_study(study, jobs.home, "requested by the user")[1] == []
    view = submitted(plan.job_spec(refit_job(study.best), {}, names=["eta"]), plan, jobs.home, jobs.submit)
    assert stop_study(study, jobs.home, "requested by the user")[1] == [refit_job(study.best)]
    assert view.store.get(STOP)


def failing(study: Study, *args: object, **more: object) -> Refitted:
    raise TuneError("Out of memory.")


def test_a_refit_that_has_failed_is_nothing_to_stop_until_the_study_is_extended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, plan = study_of(tmp_path)
    jobs, said = Jobs(tmp_path), list[str]()
    monkeypatch.setattr(job_studies, "refit", failing)
    train_more(study, plan, jobs.home, say=said.append)
    reopened = Study.open(tmp_path / "study")
    assert stop_study(reopened, jobs.home, "requested by the user") == (False, [])
    assert said == [reopened.about()[-1]] == ["Out of memory. The model of the trial remains."]
    reopened.extend(study.spec.completion)
    assert stop_study(reopened, jobs.home, "requested by the user") == (True, [])


def test_a_failed_refit_is_said_even_if_the_store_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, plan = study_of(tmp_path)
    said = list[str]()

    def unreachable(study: Study, reason: str) -> None:
        raise StoreError("The store is unreachable.")

    monkeypatch.setattr(job_studies, "refit", failing)
    monkeypatch.setattr(Study, "set_refit_failed", unreachable)
    with pytest.raises(StoreError):
        train_more(study, plan, JobsHome(tmp_path / "home"), say=said.append)
    assert said == ["Out of memory. The model of the trial remains."]


def test_a_refit_whose_result_cannot_be_stored_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, plan = study_of(tmp_path)
    done = Refitted(study.best.number, refit_job(study.best), 442)

    def rejected(study: Study, refitted: Refitted) -> None:
        raise StoreError("No space left on device.")

    monkeypatch.setattr(job_studies, "refit", lambda *args, **more: done)
    with monkeypatch.context() as full:
        full.setattr(Study, "set_refitted", rejected)
        with pytest.raises(StoreError):
            train_more(study, plan, JobsHome(tmp_path / "home"), say=never_said)
    train_more(study, plan, JobsHome(tmp_path / "home"), say=never_said)
    assert (study.refitted, study.refit_failed) == (done, "")


@pytest.mark.parametrize("error", [StoreUnavailable, StoreFull, ClusterUnavailable])
def test_a_refit_whose_job_is_unreachable_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    study, plan = study_of(tmp_path)

    def unreachable(*args: object, **more: object) -> Refitted:
        raise error("It is unreachable.")

    monkeypatch.setattr(job_studies, "refit", unreachable)
    with pytest.raises(error):
        train_more(study, plan, JobsHome(tmp_path / "home"), say=never_said)
    assert study.refit_failed == ""


def test_a_refit_waits_ten_minutes_for_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, plan = study_of(tmp_path)
    jobs, said, now = Jobs(tmp_path, ""), list[str](), [0.0]

    def unreachable(view: JobView) -> None:
        raise StoreUnavailable("no network")

    def later(secs: float) -> None:
        now[0] += 100.0
        assert now[0] < 1000.0

    monkeypatch.setattr(JobView, "refresh", unreachable)
    with pytest.raises(StoreUnavailable):
        refit(study, plan, jobs.home, submit=jobs.submit, ensure=lambda home: None, wait=later, say=said.append,
              clock=lambda: now[0])
    assert now == [600.0]
    assert said[1:] == ["no network Trying again."]


def test_a_refit_that_is_tried_again_can_be_stopped(tmp_path: Path) -> None:
    study, plan = study_of(tmp_path)
    study.set_refit_failed("Out of memory.")
    jobs = Jobs(tmp_path, "")
    submitted(plan.job_spec(refit_job(study.best), {}, names=["eta"]), plan, jobs.home, jobs.submit)
    assert stop_study(study, jobs.home, "requested by the user") == (True, [refit_job(study.best)])
    assert study.was_stopped


def test_a_better_trial_or_model_is_not_the_one_whose_refit_failed(tmp_path: Path) -> None:
    study, _ = study_of(tmp_path)
    best = study.best.number
    study.set_refit_failed("Out of memory.")
    study.set_refitted(Refitted(best, "houses-000-refit.2", 442))
    assert study.refit_failed == ""
    study.set_refit_failed("Out of memory.")
    assert study.refit_failed
    study.add({"eta": 0.1}, 0.01)
    assert study.refit_failed == ""


def test_the_number_of_rows_is_a_recorded_one(tmp_path: Path) -> None:
    study, plan = study_of(tmp_path)
    jobs = Jobs(tmp_path)
    with Run(to=tmp_path / "runs" / refit_job(study.best)) as run:
        run.log_metrics({"accuracy": 0.5})
    spec = plan.job_spec(refit_job(study.best), study.best.parameters)
    view = submitted(spec, plan, jobs.home, Jobs(tmp_path, "").submit)
    log = EventLog(view.store, EVENTS)
    log.new()
    log.append("starting", attempt=0)
    log.append("over", phase="finished", reason="")
    view.store.put(f"{log_folder(0, 0)}/00000000.log", b"refitted_rows: 5\n")
    view.refresh()
    assert MetricValues(view, ["refitted_rows"], {}).read(RunReader(view.store)), "as metrics of trials are read"
    done = refit(study, plan, jobs.home, submit=jobs.submit, ensure=lambda home: None, wait=never)
    assert done == Refitted(study.best.number, view.name, 0)


def test_a_better_trial_needs_another_model(tmp_path: Path) -> None:
    study, _ = study_of(tmp_path)
    study.set_refitted(Refitted(study.best.number, "houses-000-refit", 442))
    study.add({"eta": 0.1}, 0.01)
    assert study.refitted is None
    assert best_trial(study, study.best).model == ""


def test_a_refit_that_fails_names_its_job_and_the_reason(tmp_path: Path) -> None:
    study, plan = study_of(tmp_path)
    jobs = Jobs(tmp_path, "failed", "out of memory")
    with pytest.raises(TuneError, match=rf"The job {study.best.job}-refit failed: out of memory"):
        refit(study, plan, jobs.home, submit=jobs.submit, ensure=lambda home: None, wait=never)


def test_after_a_refit_that_failed_there_is_another(tmp_path: Path) -> None:
    study, plan = study_of(tmp_path)
    jobs = Jobs(tmp_path, "failed", "out of memory")
    for _ in range(2):
        with pytest.raises(TuneError):
            refit(study, plan, jobs.home, submit=jobs.submit, ensure=lambda home: None, wait=never)
    later = Jobs(tmp_path)
    done = refit(study, plan, jobs.home, submit=later.submit, ensure=lambda home: None, wait=never)
    best = study.best.job
    assert [spec.name for spec in jobs.specs] == [f"{best}-refit", f"{best}-refit.2"]
    assert done.job == f"{best}-refit.3"
    assert {trial_job_of(spec.name) for spec in jobs.specs} == {best}


def damaged_record(jobs: Jobs, plan: TrialPlan, name: str) -> None:
    (jobs.home.path / "jobs" / f"{name}.json").write_text("{")


def damaged_job(jobs: Jobs, plan: TrialPlan, name: str) -> None:
    store_from_url(plan.url_of(name)).put(SPEC, b"{}")


def damaged_event(jobs: Jobs, plan: TrialPlan, name: str) -> None:
    store_from_url(plan.url_of(name)).put(f"{EVENTS}/00000000.json", b"{}")


@pytest.mark.parametrize("damage", [damaged_record, damaged_job, damaged_event])
def test_after_a_refit_that_cannot_be_read_there_is_another_and_that_can_be_stopped(
    tmp_path: Path, damage: Callable[[Jobs, TrialPlan, str], None]
) -> None:
    study, plan = study_of(tmp_path)
    jobs = Jobs(tmp_path, "")
    first = submitted(plan.job_spec(refit_job(study.best), {}, names=["eta"]), plan, jobs.home, jobs.submit)
    damage(jobs, plan, first.name)
    with pytest.raises(AssertionError, match="nothing is to be waited for"):
        refit(study, plan, jobs.home, submit=jobs.submit, ensure=lambda home: None, wait=never)
    assert [spec.name for spec in jobs.specs] == [first.name, f"{first.name}.2"]
    assert stop_study(study, jobs.home, "requested by the user")[1] == [f"{first.name}.2"]


def test_a_trial_whose_job_cannot_be_read_is_refitted(tmp_path: Path) -> None:
    study, plan = study_of(tmp_path)
    jobs = Jobs(tmp_path)
    submitted(plan.job_spec(study.best.job, study.best.parameters), plan, jobs.home, jobs.submit)
    damaged_record(jobs, plan, study.best.job)
    done = refit(study, plan, jobs.home, submit=jobs.submit, ensure=lambda home: None, wait=never)
    assert done.job == refit_job(study.best)


def test_a_trial_that_was_trained_on_all_rows_needs_no_refit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, plan = study_of(tmp_path)
    jobs, said = Jobs(tmp_path), list[str]()
    submitted(plan.job_spec(study.best.job, study.best.parameters), plan, jobs.home, jobs.submit)
    monkeypatch.setattr(refitting, "_rows_of", lambda view: 442)
    done = refit(study, plan, jobs.home, submit=jobs.submit, say=said.append, ensure=lambda home: None, wait=never)
    assert done == Refitted(study.best.number, study.best.job, 442)
    assert (len(jobs.specs), said) == (1, [])


@pytest.mark.parametrize(("options", "spec", "expected"), [
    ({"minimize": ["loss"]}, JOB, True),
    ({"minimize": ["loss"], "refit": False}, JOB, False),
    ({"minimize": ["loss"], "maximize": ["auc"]}, JOB, False),
    ({"minimize": ["loss"]}, replace(JOB, data={"train": "a.csv", "val": "b.csv"}), False),
    ({"minimize": ["loss"], "refit": True}, replace(JOB, data={"train": "a.csv", "val": "b.csv"}), True),
    ({"minimize": ["loss"]}, replace(JOB, hyperparameters={"refit": "yes"}), False),
    ({"minimize": ["loss"]}, JobSpec(("train.py",)), False),
])
def test_rows_for_validation_are_used_unless_the_user_chose_them(options: Any, spec: JobSpec, expected: bool) -> None:
    assert refits(options, spec) is expected


@pytest.mark.parametrize(("options", "spec", "message"), [
    ({"minimize": ["loss"], "refit": True}, JobSpec(("train.py",)), "a script decides itself"),
    ({"minimize": ["loss"], "maximize": ["auc"], "refit": True}, JOB, "no single best trial"),
])
def test_a_refit_that_makes_no_sense_is_refused(options: Any, spec: JobSpec, message: str) -> None:
    with pytest.raises(TuneError, match=message):
        refits(options, spec)


def test_a_study_is_stopped_once(tmp_path: Path) -> None:
    study, _ = study_of(tmp_path)
    jobs = Jobs(tmp_path)
    assert stop_study(study, jobs.home, "requested by the user") == (True, []), "a refit is due"
    assert stop_study(study, jobs.home, "requested by the user") == (False, [])
