"""Jobs of a study that is over: repetitions of its best trials, and the refit of the best one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count

from barograph.errors import RunError
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import JobView
from barograph.jobs.state import Phase
from barograph.rules.words import joined
from barograph.tune.overview import best_of
from barograph.tune.study import Study
from barograph.tune.trial import Trial, TrialState
from barograph.tune.trial_job import adopted
from barograph.tune.trial_plan import TrialPlan

CANDIDATES = 2
"""Number of trials that are repeated."""
_OF_TRIAL = re.compile(r"-(?:s\d+|refit)(?:\.\d+)?$")


def repetition_job(trial: Trial, seed: int) -> str:
    """Return the name of the job that repeats a trial with another seed."""
    return f"{trial.job}-s{seed}"


def refit_job(trial: Trial) -> str:
    """Return the name of the job that trains a trial again on all rows."""
    return f"{trial.job}-refit"


def trial_job_of(job: str) -> str:
    """Return the name of the job of the trial that a job repeats or refits; of another job, its own name.

    Example:
        >>> trial_job_of("digits-003-s2"), trial_job_of("digits-003-refit.2"), trial_job_of("digits-003")
        ('digits-003', 'digits-003', 'digits-003')
    """
    return _OF_TRIAL.sub("", job)


def has_failed(view: JobView) -> bool:
    """Return whether a job failed, was stopped, or cannot be read.

    Raises:
        StoreError: Its store is unreachable.
    """
    try:
        return view.refresh().phase in (Phase.FAILED, Phase.STOPPED)
    except RunError:
        return True


def attempt(
    home: JobsHome, name: str, *, was_in_vain: Callable[[JobView], bool] = has_failed
) -> tuple[str, JobView | None]:
    """Return the name to use for a job, and the job that has it: none that was in vain or cannot be read.

    Args:
        home: Directory of the jobs.
        name: Name of its first attempt; later ones end in ".2", ".3" and so on.
        was_in_vain: Returns whether a job has ended without the result that it is for.
    """
    for tried, view in _attempts(home, name):
        if view is None or not was_in_vain(view):
            return tried, view
    raise AssertionError


def latest_attempt(home: JobsHome, name: str) -> JobView | None:
    """Return the last attempt of a job that can be read; None if there is none."""
    last = None
    for _, view in _attempts(home, name):
        if view is None:
            return last
        last = view
    raise AssertionError


def _attempts(home: JobsHome, name: str) -> Iterator[tuple[str, JobView | None]]:
    """Yield name and job of each attempt that can be read, then names without a job."""
    for number in count(1):
        tried = name if number == 1 else f"{name}.{number}"
        try:
            view = adopted(home, tried)
        except RunError:
            continue
        yield tried, view


def later_names(study: Study, plan: TrialPlan) -> list[str]:
    """Return the names of the first attempts of the jobs that repeat or refit trials of a study."""
    names = [repetition_job(trial, seed) for seed in range(1, plan.confirm + 1) for trial in candidates(study)]
    if plan.refit and (best := best_of(study)):
        names.append(refit_job(best))
    return names


def candidates(study: Study) -> list[Trial]:
    """Return the best finished trials, as many as are repeated; empty if there are fewer."""
    finished = sorted((trial for trial in study.trials if trial.state is TrialState.FINISHED),
                      key=lambda trial: study.objective.loss(trial.value))[:CANDIDATES]
    return finished if len(finished) == CANDIDATES else []


def due(study: Study, plan: TrialPlan) -> list[str]:
    """Return what a study that is over still does, such as "the refit of trial 3"."""
    if study.was_stopped:
        return []
    found = []
    if plan.confirm and not study.was_repeated and (best := candidates(study)):
        found.append(f"repetitions of trials {joined([str(trial.number) for trial in best])}")
    if plan.refit and study.refitted is None and not study.refit_failed and (first := best_of(study)):
        found.append(f"the refit of trial {first.number}")
    return found
