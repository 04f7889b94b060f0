"""Trials that leave cores idle share them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog, instance_folder
from barograph.jobs.job_report import JobView
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.jobs.submitting import Submitted
from barograph.store.urls import store_from_url
from barograph.tune.packing import Packing, cores_used
from barograph.tune.study import Study
from barograph.tune.trial_plan import TrialPlan, can_be_packed
from barograph.tune.tuner import Tuner


@pytest.mark.parametrize(("measured", "cpus"), [
    ((), 1.0), ((math.nan,), 1.0), ((0.2,), 0.25), ((0.2, 0.5, math.nan), 0.55), ((0.001,), 0.1), ((0.98,), 1.0),
    ((1.7,), 1.0), ((0.9, 0.1, 0.1, 0.1, 0.1, 0.1), 0.15),
])
def test_a_trial_reserves_what_the_largest_of_the_latest_used(measured: tuple[float, ...], cpus: float) -> None:
    packing = Packing(1.0)
    for cores in measured:
        packing.add(cores)
    assert packing.cpus == cpus


@pytest.mark.parametrize(("spec", "expected"), [
    (JobSpec(("a.py",)), True), (JobSpec(("a.py",), cpus=2.0), False), (JobSpec(("a.py",), gpus=1), False),
    (JobSpec(("a.py",), instances=2), False), (JobSpec(("a.py",), processes=2), False),
])
def test_only_trials_of_one_process_on_one_core_share_it(spec: JobSpec, expected: bool) -> None:
    assert can_be_packed(spec) is expected


class Jobs:
    """Submits jobs that end at once, after they used some cores."""

    def __init__(self, cores: float) -> None:
        self.cores, self.cpus = cores, list[float]()

    def __call__(self, spec: JobSpec, *, to: str, home: JobsHome) -> Submitted:
        self.cpus.append(spec.cpus)
        store = store_from_url(to)
        write_submission(store, Submission(spec.name, spec))
        log = EventLog(store, EVENTS)
        log.append("submitted")
        log.append("starting", attempt=0)
        EventLog(store, instance_folder(0, 0)).append("uploading", cores=self.cores)
        log.append("over", phase="failed", reason="it printed no metric")
        home.add(JobRecord(spec.name, to, 1, "local"), {})
        return Submitted(spec.name, store)


@pytest.mark.parametrize(("packs", "cpus"), [(True, [1.0, 0.35, 0.35]), (False, [1.0, 1.0, 1.0])])
def test_later_trials_reserve_what_the_first_one_used(tmp_path: Path, packs: bool, cpus: list[float]) -> None:
    plan = replace(TrialPlan("study", JobSpec(("train.py",)), (tmp_path / "runs").as_uri()), packs=packs)
    study = Study.create(tmp_path / "study", {"x": [1, 2, 3]}, strategy="grid", minimize="loss", details=plan.to_json())
    jobs = Jobs(0.3)
    Tuner(study, plan, JobsHome(tmp_path / "home"), submit=jobs, ensure=lambda home: None).run(wait=lambda secs: None)
    assert jobs.cpus == cpus


def test_the_cores_of_a_job_are_those_of_its_last_attempt(tmp_path: Path) -> None:
    Jobs(0.3)(JobSpec(("train.py",), name="job"), to=str(tmp_path / "run"), home=JobsHome(tmp_path / "home"))
    view = JobView("job", store_from_url(str(tmp_path / "run")))
    view.refresh()
    assert cores_used(view) == 0.3
    assert math.isnan(cores_used(JobView("job", store_from_url(str(tmp_path / "run"))))), "it has not begun"
