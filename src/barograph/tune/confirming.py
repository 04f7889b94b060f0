"""Repeats the best trials of a study with other seeds."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable

from barograph.errors import JobRefused, RunError, StoreError, UnknownStudy
from barograph.jobs.controller_process import ENSURE_SECS, ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import JobView
from barograph.jobs.state import Phase
from barograph.jobs.submitting import submit
from barograph.runs.reading.reader import RunReader
from barograph.tune.confirmation import Confirmation, judged
from barograph.tune.later_jobs import attempt, candidates, repetition_job
from barograph.tune.metric_values import MetricValues
from barograph.tune.outage import PASSING, Outage
from barograph.tune.study import Study
from barograph.tune.trial import Trial
from barograph.tune.trial_job import Submit, stop_jobs, submitted
from barograph.tune.trial_plan import TrialPlan
from barograph.watch.figures import count

SEED = "seed"
"""Argument of the script that gets another value for each repetition."""
_LOOK_SECS = 0.5


def confirm(
    study: Study, plan: TrialPlan, home: JobsHome, *, wait: Callable[[float], object] = time.sleep,
    submit: Submit = submit, say: Callable[[str], object] = lambda text: None,
    ensure: Callable[[JobsHome], object] = ensure_controller, clock: Callable[[], float] = time.monotonic,
) -> Confirmation | None:
    """Repeat the best trials of a study, with `--seed 1`, 2 … of the script; jobs that run or finished are used.

    Args:
        study: The study, which is over.
        plan: How its trials are trained.
        home: Directory of the jobs.
        wait: Sleeps for some seconds.
        submit: Submits a job.
        say: Takes a line at the start, one for each repetition that ends, and one for each outage.
        ensure: Starts the controller of the jobs if there is none.
        clock: Monotonic clock in seconds.

    Returns:
        None if fewer than two trials finished or a user stopped the study. If no repetition gave a value, the script
        is to blame, and the next call repeats them.

    Raises:
        ClusterUnavailable: The cluster was unreachable for ten minutes.
        UnknownStudy: The study was deleted. Its running jobs were asked to stop.
        StoreError: A store was unreachable or full for ten minutes.
    """
    if not (finished := candidates(study)):
        return None
    waiting = [(trial, seed) for seed in range(1, plan.confirm + 1) for trial in finished]
    running: dict[tuple[int, int], JobView] = {}
    values: dict[int, list[float]] = {trial.number: [] for trial in finished}
    failed: dict[int, list[str]] = {trial.number: [] for trial in finished}

    def ended(trial: int, seed: int, result: float | str) -> None:
        (failed if isinstance(result, str) else values)[trial].append(result)  # type: ignore[arg-type]
        say(f"trial {trial} with seed {seed}: {result if isinstance(result, str) else f'{result:.4g}'}")

    say(f"repeating trials {finished[0].number} and {finished[1].number} with {count(plan.confirm, 'other seed')}")
    ensure_at, outage = -math.inf, Outage(clock, say=say)
    while waiting or running:
        with outage.tolerated():
            try:
                study.refresh()
            except UnknownStudy:
                stop_jobs(running.values(), "its study was deleted")
                raise
            if study.was_stopped:
                return None
            while waiting and len(running) < plan.parallel:
                trial, seed = waiting[0]
                try:
                    running[trial.number, seed] = _repetition(study, trial, seed, plan, home, submit)
                except PASSING:
                    raise  # again at the next turn
                except (JobRefused, RunError) as error:
                    ended(trial.number, seed, str(error))
                del waiting[0]
        for place, view in list(running.items()):
            with contextlib.suppress(StoreError):  # unreachable: again at the next turn
                if (result := _result(study, plan, view)) is not None:
                    del running[place]
                    ended(*place, result)
        if clock() >= ensure_at:
            ensure_at = clock() + ENSURE_SECS
            ensure(home)
        if running or waiting:
            wait(_LOOK_SECS)
    if not any(values.values()):
        say(f"no repetition gave a value. Once this is fixed:  barograph tune resume {plan.name}")
    return judged(study.objective, values, failed)


def _repetition(
    study: Study, trial: Trial, seed: int, plan: TrialPlan, home: JobsHome, submit: Submit
) -> JobView:
    name, view = attempt(home, repetition_job(trial, seed),
                         was_in_vain=lambda job: isinstance(_result(study, plan, job), str))
    spec = plan.job_spec(name, trial.parameters, trial=trial.job, names=study.space.names)
    return view or submitted(spec.changed({SEED: str(seed)}), plan, home, submit)


def _result(study: Study, plan: TrialPlan, view: JobView) -> float | str | None:
    """Return the value of a repetition, why it failed, or None while it runs."""
    try:
        state = view.refresh()
        if not state.phase.is_over:
            return None
        if state.phase is not Phase.FINISHED:
            return state.reason
        found = MetricValues(view, [study.objective.name], plan.patterns).read(RunReader(view.store))
    except RunError as error:
        return str(error)
    objective = study.objective
    if (curve := found.get(objective.name)) is None:
        return f"{objective.name} was never reported"
    value = curve.best(maximize=objective.maximize) if plan.summary == "best" else curve.last
    return value if math.isfinite(value) else f"{objective.name} is not finite"
