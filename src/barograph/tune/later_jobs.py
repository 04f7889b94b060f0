"""Jobs of a study that is over: repetitions of its best trials, and the refit of the best one."""

from __future__ import annotations

import re
from itertools import count

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


def attempt(home: JobsHome, name: str) -> tuple[str, JobView | None]:
    """Return the name to use for a job, and the job that has it: none that failed or was stopped.

    Args:
        home: Directory of the jobs.
        name: Name of its first attempt; later ones end in ".2", ".3" and so on.

    Raises:
        StoreError: The store of a job is unreachable.
    """
    for number in count(1):
        tried = name if number == 1 else f"{name}.{number}"
        view = adopted(home, tried)
        if view is None or view.refresh().phase not in (Phase.FAILED, Phase.STOPPED):
            return tried, view
    raise AssertionError


def latest_attempt(home: JobsHome, name: str) -> JobView | None:
    """Return the job that `attempt` finds; None if there is none."""
    return attempt(home, name)[1]


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
    if plan.confirm and study.confirmation is None and (best := candidates(study)):
        found.append(f"repetitions of trials {joined([str(trial.number) for trial in best])}")
    if plan.refit and study.refitted is None and not study.refit_failed and (first := best_of(study)):
        found.append(f"the refit of trial {first.number}")
    return found
