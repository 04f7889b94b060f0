"""The loop of a study of jobs: asks for trials, runs their jobs, and adopts those of a killed tuner."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from barograph.errors import JobRefused, RunError, StoreError, StoreUnavailable, UnknownStudy
from barograph.jobs.controller_process import ENSURE_SECS, ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import JobView
from barograph.jobs.submitting import submit
from barograph.store.urls import store_from_url
from barograph.tune.outage import PASSING, Outage
from barograph.tune.packing import Packing
from barograph.tune.study import BY_USER, Study
from barograph.tune.trial import Cause, Trial
from barograph.tune.trial_job import Submit, TrialJob, adopted, runs, stop_jobs, without_values
from barograph.tune.trial_plan import TrialPlan

_LOOK_SECS = 0.5
_SUBMISSION_SECS = 60.0
"""Longest time from the first object of a job in its store to its record in the directory of jobs."""


class Tuner:
    """Trains the trials of a study as jobs, several at the same time; none waits for another.

    Args:
        study: The study, new or continued.
        plan: How trials are trained.
        home: Directory of the jobs; None: the usual one.
        submit: Submits a job.
        ensure: Starts the controller of the jobs if there is none.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, study: Study, plan: TrialPlan, home: JobsHome | None = None, *, submit: Submit = submit,
        ensure: Callable[[JobsHome], object] = ensure_controller, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.study, self.plan = study, plan
        self.jobs: dict[int, TrialJob] = {}
        self._home, self._submit, self._ensure, self._clock = home or JobsHome(), submit, ensure, clock
        self._ensure_at = -math.inf
        self._outage = Outage(clock)
        self._kept_waiting: JobRefused | StoreError | None = None
        self._packing = Packing(plan.spec.cpus)
        self._refused = ""
        self._taken_since: dict[int, float] = {}

    @property
    def outage(self) -> str:
        """Why a store or the cluster takes nothing now; "" if nothing failed."""
        return self._outage.reason

    def turn(self) -> bool:
        """Do everything that is due; return whether the study continues.

        Raises:
            JobRefused: The first job has problems, or two in a row have the same ones; otherwise their trials fail.
            UnknownStudy: The study was deleted. Its running jobs were asked to stop.
        """
        try:
            return self._turned()
        except UnknownStudy as error:
            stop_jobs((job.view for job in self.jobs.values()), "its study was deleted")
            raise UnknownStudy(f"The study was deleted while it ran; its jobs stop ({self.study.url}).") from error

    def _turned(self) -> bool:
        self._kept_waiting = None
        self.study.refresh()
        for trial in self.study.running:
            if trial.number not in self.jobs:
                self._start(trial)  # of a tuner that was killed
        for number, job in list(self.jobs.items()):
            if job.turn():
                self._packing.add(job.cores)
                del self.jobs[number]
        while not self._kept_waiting and self._goes_on < self.plan.parallel and (
                new := self.study.ask(job=self.plan.job_names)):
            self._start(new)
        if self._goes_on and self._clock() >= self._ensure_at:  # otherwise trials wait for ever for a killed controller
            self._ensure_at = self._clock() + ENSURE_SECS
            self._ensure(self._home)
        return bool(self._goes_on)

    @property
    def _goes_on(self) -> int:
        # A trial may have no job yet, because its store is unreachable or another process submits it.
        return len(self.jobs.keys() | {trial.number for trial in self.study.running})

    def run(
        self, *, wait: Callable[[float], object] = time.sleep, seen: Callable[[Tuner], object] | None = None
    ) -> None:
        """Tune until the study is over.

        Args:
            wait: Sleeps for some seconds.
            seen: Called after each turn.

        Raises:
            JobRefused, UnknownStudy: As `turn`.
            ClusterUnavailable: The cluster was unreachable for ten minutes.
            StoreError: The store of the study rejects an event, or a store was unreachable or full for ten minutes.
        """
        while self._turn_if_reachable():
            if seen:
                seen(self)
            wait(_LOOK_SECS)
        if seen:
            seen(self)

    def _turn_if_reachable(self) -> bool:
        # The next turn reads first what has been written, so an event whose response was lost counts once.
        goes_on = True
        with self._outage.tolerated():
            goes_on = self.turn()
            if self._kept_waiting:
                raise self._kept_waiting
        return goes_on

    def _start(self, trial: Trial) -> None:
        try:
            if (self.study.was_stopped or self._kept_waiting) and adopted(self._home, trial.job) is None:
                if self.study.was_stopped and not self._may_be_submitted(trial):
                    self.study.stop(trial, BY_USER, cause=Cause.USER)
                    self.study.tell(trial)
                return  # after one failed start, which may take a minute, others would only fail too
            cpus = self._packing.cpus if self.plan.packs else None
            self.jobs[trial.number] = TrialJob(self.study, trial, self.plan, self._home, submit=self._submit, cpus=cpus)
            self._refused = ""
        except PASSING as error:
            self._kept_waiting = error  # again at the next turn: this is not the fault of the trial
        except JobRefused as error:
            if self._may_be_submitted(trial):
                return
            reason = without_values(str(error), trial.parameters)
            if reason == self._refused:
                raise  # every other would be refused, too; this one is started on resume
            self._refused = reason
            self.study.tell(trial, failed=str(error))
            if trial.number == 0:
                self.study.end("its first job was rejected")
                raise
        except StoreError as error:
            self.study.tell(trial, failed=f"its store rejects the job: {error}")
        except RunError as error:
            self.study.tell(trial, failed=f"its job cannot be read: {error}")

    def _may_be_submitted(self, trial: Trial) -> bool:
        """Return whether the job of a refused trial is there, or another process is submitting it.

        Two tuners may follow one study, and a tuner may be killed while it submits; the next controller removes what
        such a submission left. A job without a record in the directory of jobs was submitted on another machine.
        """
        try:
            view = JobView(trial.job, store_from_url(self.plan.url_of(trial.job)))
            was_submitted = not math.isnan(view.refresh().submitted_unix)
        except StoreUnavailable:
            return True
        except (RunError, StoreError):
            return False
        if not runs(view, self.plan.job_spec(trial.job, trial.parameters, names=self.study.space.names)):
            return False
        since = self._taken_since.setdefault(trial.number, self._clock())
        if self._clock() - since < _SUBMISSION_SECS:
            return True
        if not was_submitted:
            return False
        self.jobs[trial.number] = TrialJob(self.study, trial, self.plan, self._home, submit=self._submit, view=view)
        return True
