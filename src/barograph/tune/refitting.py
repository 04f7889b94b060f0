"""Trains the best trial of a built-in algorithm again, on the rows for validation as well."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable

from barograph.errors import NotARun, RunError, StoreError, TuneError
from barograph.jobs.controller_process import ENSURE_SECS, ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import JobView
from barograph.jobs.state import JobState, Phase
from barograph.jobs.submitting import submit
from barograph.runs.reading.reader import RunReader
from barograph.tune.autotune import OPTION
from barograph.tune.later_jobs import attempt, refit_job
from barograph.tune.metric_values import recorded_curve
from barograph.tune.outage import Outage
from barograph.tune.study import Study
from barograph.tune.trial import Refitted
from barograph.tune.trial_job import Submit, adopted, submitted
from barograph.tune.trial_plan import TrialPlan

ROWS = "refitted_rows"
"""Metric with the number of rows that the built-in algorithms refitted a model on."""
_LOOK_SECS = 0.5


def refit(
    study: Study, plan: TrialPlan, home: JobsHome, *, wait: Callable[[float], object] = time.sleep,
    submit: Submit = submit, say: Callable[[str], object] = lambda text: None,
    ensure: Callable[[JobsHome], object] = ensure_controller, clock: Callable[[], float] = time.monotonic,
) -> Refitted:
    """Train the best trial again, with the option `refit` of its algorithm, unless it has been trained on all rows.

    A job that runs or finished is used; after one that failed or cannot be read, there is another.

    Args:
        study: The study, which is over.
        plan: How its trials are trained.
        home: Directory of the jobs.
        wait: Sleeps for some seconds.
        submit: Submits a job.
        say: Takes a line when the job starts, and one for each outage of its store.
        ensure: Starts the controller of the jobs if there is none.
        clock: Monotonic clock in seconds.

    Raises:
        TuneError: The job failed, or no trial has finished.
        JobRefused: The job has problems.
        RunError: The job cannot be read.
        StoreError: Its store rejects it, or was unreachable for ten minutes while it ran.
    """
    best = study.best
    with contextlib.suppress(RunError):  # the job of the trial cannot be read: train it again
        if (trained := adopted(home, best.job)) and (rows := _rows_of(trained)):
            return Refitted(best.number, best.job, rows)
    say(f"refitting trial {best.number} on all rows (--no-refit skips this)")
    name, view = attempt(home, refit_job(best))
    spec = plan.job_spec(name, best.parameters, trial=best.job, names=study.space.names).changed({OPTION: "yes"})
    view = view or submitted(spec, plan, home, submit)
    ended = _end_of(view, lambda: ensure(home), wait, clock, Outage(clock, say=say))
    if ended.phase is not Phase.FINISHED:
        raise TuneError(f"The model was not refitted on all rows. The job {name} {ended.phase}: {ended.reason}")
    return Refitted(best.number, name, _rows_of(view))


def _rows_of(view: JobView) -> int:
    try:
        found = recorded_curve(RunReader(view.store), ROWS)
    except (NotARun, StoreError):  # the job was not recorded, or its model is there and only their number unknown
        return 0
    return int(found.last) if found else 0


def _end_of(
    view: JobView, ensure: Callable[[], object], wait: Callable[[float], object], clock: Callable[[], float],
    outage: Outage,
) -> JobState:
    """Wait for the end of a job."""
    ensure_at = -math.inf
    while True:
        with outage.tolerated():
            state = view.refresh()
            if state.phase.is_over:
                return state
        if clock() >= ensure_at:
            ensure_at = clock() + ENSURE_SECS
            ensure()
        wait(_LOOK_SECS)
