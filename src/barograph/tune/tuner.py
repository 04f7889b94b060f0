"""The loop of a study of jobs: asks for trials, starts and follows their jobs, adopts those of a killed tuner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from barograph.errors import JobRefused, StoreError
from barograph.jobs.controller_process import ENSURE_SECS, ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.job import Job, request_stop
from barograph.jobs.submitting import submit
from barograph.tune.space import Space, space_from
from barograph.tune.studies import create_study, open_study, study_root
from barograph.tune.study import Study
from barograph.tune.study_home import StudyHome
from barograph.tune.trial import Trial
from barograph.tune.trial_job import Submit, TrialJob, adopted
from barograph.tune.trial_plan import TrialPlan

_LOOK_SECS = 0.5


class Tuner:
    """Trains the trials of a study as jobs, several at the same time; none waits for another.

    Args:
        study: The study, new or continued.
        plan: How trials are trained.
        home: Directory of the jobs; None: the usual one.
        submit: Submits a job.
    """

    def __init__(self, study: Study, plan: TrialPlan, home: JobsHome | None = None, *, submit: Submit = submit) -> None:
        self.study, self.plan = study, plan
        self.jobs: dict[int, TrialJob] = {}
        self._home, self._submit = home or JobsHome(), submit
        self._ensure_at = 0.0

    def turn(self) -> bool:
        """Do what is due now; return whether the study goes on.

        Raises:
            JobRefused: The first job has problems; those of later ones fail their trials.
        """
        self.study.refresh()
        for trial in self.study.running:
            if trial.number not in self.jobs:
                self._start(trial)  # of a tuner that was killed
        for number, job in list(self.jobs.items()):
            if job.turn():
                del self.jobs[number]
        while len(self.jobs) < self.plan.parallel and (new := self.study.ask(job=self.plan.job_names)):
            self._start(new)
        if self.jobs and time.monotonic() >= self._ensure_at:  # otherwise trials wait for ever for a killed controller
            self._ensure_at = time.monotonic() + ENSURE_SECS
            ensure_controller(self._home)
        return bool(self.jobs)

    def run(
        self, *, wait: Callable[[float], object] = time.sleep, seen: Callable[[Tuner], object] | None = None
    ) -> None:
        """Tune until the study is over.

        Args:
            wait: Lets some seconds pass.
            seen: Called after each turn.
        """
        while self.turn():
            if seen:
                seen(self)
            wait(_LOOK_SECS)
        if seen:
            seen(self)

    def _start(self, trial: Trial) -> None:
        try:
            self.jobs[trial.number] = TrialJob(self.study, trial, self.plan, self._home, submit=self._submit)
        except JobRefused as error:
            self.study.tell(trial, failed=str(error))
            if trial.number == 0:
                self.study.end("its first job was rejected")
                raise
        except StoreError as error:
            self.study.tell(trial, failed=f"its store is unreachable: {error}")


def tune_job(
    job: Job, space: Space | Mapping[str, Any] | Iterable[str], *, name: str, trials: int = 20, parallel: int = 1,
    constraints: Iterable[str] = (), to: str = "", patterns: Mapping[str, str] | None = None, value: str = "last",
    home: JobsHome | None = None, **options: Any,
) -> Study:
    """Tune a training job; returns the study when it is over. `barograph tune show NAME` shows it, too.

    Args:
        job: The job, without what varies.
        space: As for `Study.create`.
        name: Name of the study. A study of this name is continued.
        trials: Number of trials.
        parallel: Number of jobs at the same time.
        constraints: Conditions between parameters.
        to: Directory or URL for the study and its runs; "": the usual one.
        patterns: Metric to the regular expression that finds it in the output; others are recorded metrics.
        value: Which value of a metric counts: "last" or "best".
        home: Directory of the jobs; None: the usual one.
        options: Options of `barograph tune` with underscores: `maximize`, `minimize` (lists), `strategy`, `seed`,
            `stop_rule`, `max_time` …

    Raises:
        TuneError: An option is wrong.
        JobRefused: The job has problems.
    """
    home = home or JobsHome()
    if StudyHome(home).has(name):
        study = open_study(name, home)
        plan = replace(TrialPlan.from_json(study.spec.details), parallel=parallel)
        if study.spec.completion.trials != trials:
            study.extend(replace(study.spec.completion, trials=trials))
    else:
        plan = TrialPlan(name, job.spec, study_root(to), patterns=patterns or {}, summary=value, parallel=parallel)
        study = create_study(plan, space_from(space, constraints), {**options, "jobs": trials}, home)
    Tuner(study, plan, home).run()
    return study


def stop_jobs(study: Study, home: JobsHome, reason: str) -> Sequence[str]:
    """Ask the jobs of all running trials to stop; return their names.

    Raises:
        StoreError: A store rejects the request.
    """
    stopped = []
    for trial in study.running:
        view = adopted(home, trial.job)
        if view is not None and not view.refresh().phase.is_over:
            request_stop(view, reason)
            stopped.append(trial.job)
    return stopped


