"""Studies of jobs: started from options, trained to their end, stopped."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from barograph.errors import (
    BarographError,
    RunError,
    StudyChanged,
    TuneError,
    UnknownName,
    nearest,
)
from barograph.jobs.home import JobsHome
from barograph.jobs.job import Job, request_stop
from barograph.jobs.job_report import JobView
from barograph.jobs.spec import JobSpec
from barograph.store.urls import store_from_url
from barograph.tune.autotune import autotuned, refits
from barograph.tune.completion import failure_of_all
from barograph.tune.confirming import confirm
from barograph.tune.later_jobs import due, later_names, latest_attempt
from barograph.tune.options import OPTIONS, check_objectives, check_positive, completion_of, split_entries
from barograph.tune.outage import PASSING
from barograph.tune.overview import best_of, plan_of
from barograph.tune.refitting import refit
from barograph.tune.space import Space, space_from
from barograph.tune.spec import check_same, objectives_from
from barograph.tune.studies import check_job, create_study, found_study, study_root
from barograph.tune.study import Study
from barograph.tune.study_home import StudyHome, check_study_name, new_study_name
from barograph.tune.trial_job import adopted
from barograph.tune.trial_plan import TrialPlan, can_be_packed
from barograph.tune.tuner import Tuner

_ARGUMENTS = {"vary": "space", "constraint": "constraints", "metric": "patterns", "jobs": "trials"}
"""Options of `barograph tune` to the arguments of `tune_job` for them."""


def start_study(
    options: Mapping[str, Any], spec: JobSpec, home: JobsHome, *, to: str = "", packs: bool | None = None
) -> tuple[Study, TrialPlan]:
    """Create the study that options describe, and return how its trials are trained.

    Args:
        options: Options of `barograph tune`, by their names with underscores.
        spec: The job, without what varies.
        home: Directory of the jobs.
        to: Directory or URL for the study and its runs; "": the usual one.
        packs: Whether trials may share cores; None: if their jobs can.

    Raises:
        TuneError, SettingsError: An option is wrong.
        JobRefused: The job has problems.
        StudyExists: There is a study of that name.
    """
    check_objectives(options)
    if name := options.get("name"):
        check_study_name(name)
    plan = TrialPlan(
        name or new_study_name(spec.title), spec, study_root(to), patterns=options.get("metric") or {},
        summary=options.get("value") or "last", parallel=_given(options, "parallel", 1),
        confirm=_given(options, "confirm", 0), directory=os.getcwd(),
        packs=can_be_packed(spec) if packs is None else packs, refit=refits(options, spec))
    completion_of(options)  # before the job is checked: a wrong number is quicker to find
    space = space_from(options["vary"], options.get("constraint") or ())
    check_job(plan, space, home)
    return create_study(plan, space, options, home), plan


def train_more(study: Study, plan: TrialPlan, home: JobsHome, *, say: Callable[[str], object]) -> None:
    """Repeat and refit the best trials of a study that is over, unless a user stopped it.

    Args:
        study: The study.
        plan: How its trials are trained.
        home: Directory of the jobs.
        say: Takes lines about what is trained, and about a refit that failed.

    Raises:
        ClusterUnavailable: The cluster is unreachable; the next call continues.
        StoreError: The store of the study rejects an event, or a store is unreachable; the next call continues.
    """
    if not study.was_stopped and plan.confirm and not study.was_repeated and (
            found := confirm(study, plan, home, say=say)):
        study.confirm(found)
    if study.was_stopped or not plan.refit or study.refitted is not None or best_of(study) is None:
        return
    try:
        refitted = refit(study, plan, home, say=say)
    except PASSING:
        raise  # the job may run or have finished, or runs once the cluster or the room is there
    except BarographError as error:  # the study has a result nevertheless
        say(reason := f"{error} The model of the trial remains.")  # before the store, which may be unreachable
        study.set_refit_failed(reason)
    else:
        study.set_refitted(refitted)


def tune_job(
    job: Job, space: Space | Mapping[str, Any] | Iterable[str] = (), *, name: str, trials: int = 20, parallel: int = 1,
    constraints: Iterable[str] = (), to: str = "", patterns: Mapping[str, str] | None = None, value: str = "",
    home: JobsHome | None = None, **options: Any,
) -> Study:
    """Tune a training job; returns the study when it is over. `barograph tune show NAME` shows it, too.

    Args:
        job: The job, without what varies. With one CPU, the default, trials that use less of it share cores.
        space: As for `Study.create`. A built-in algorithm brings its own.
        name: Name of the study. A study of this name is continued.
        trials: Number of trials.
        parallel: Number of jobs at the same time.
        constraints: Conditions between parameters.
        to: Directory or URL for the study and its runs; "": the usual one.
        patterns: Metric to the regular expression that finds it in the output; others are recorded metrics.
        value: Which value of a metric counts: "last", the default, or "best".
        home: Directory of the jobs; None: the usual one.
        options: Options of `barograph tune` with underscores: `maximize`, `minimize`, `strategy`, `seed`, `stop_rule`,
            `max_time`, `confirm`, `refit` …

    Raises:
        UnknownName: There is no such option.
        TuneError: An option is wrong, or all trials failed; the message has the common cause.
        JobRefused: The job has problems.
        StudyChanged: There is a study of this name with another command, space, objective, strategy or seed.
        StoreError: A store rejects an event or is unreachable; the same call continues.
    """
    home, constraints = home or JobsHome(), tuple(constraints)
    check_positive("trials", trials)
    known = {*OPTIONS, *_ARGUMENTS.values()} - _ARGUMENTS.keys()
    for wrong in options.keys() - known:
        meant = f'Did you mean "{_ARGUMENTS[wrong]}"?' if wrong in _ARGUMENTS else nearest(wrong, known)
        raise UnknownName(f'"{wrong}" is not an option of a study. {meant}')
    given, _ = split_entries(options)
    given |= {"vary": space, "constraint": constraints, "metric": patterns, "name": name, "jobs": trials,
              "parallel": parallel, **({"value": value} if value else {})}
    given, spec = autotuned(given, job.spec) if job.spec.algorithm else (given, job.spec)
    if (study := found_study(name, home)) is not None:
        _check_unchanged(study, spec, space_from(given["vary"], constraints), given, StudyHome(home).url(name))
        plan = replace(TrialPlan.from_json(study.spec.details), parallel=parallel)
        study.go_on(replace(study.spec.completion, trials=trials), if_stopped=True)
    else:
        study, plan = start_study(given, spec, home, to=to)
    Tuner(study, plan, home).run()
    train_more(study, plan, home, say=lambda text: None)
    if cause := failure_of_all(study.trials):
        raise TuneError(f"{cause[0].upper()}{cause[1:].rstrip('.')}. To list the trials:  barograph tune show {name}")
    return study


def stop_study(study: Study, home: JobsHome, reason: str) -> tuple[bool, Sequence[str]]:
    """Start no more trials, repetitions and refits of a study, and ask their jobs to stop.

    Returns:
        Whether there was something to stop, and the names of the jobs.

    Raises:
        StoreError: A store rejects the request.
    """
    plan = plan_of(study)
    goes_on = not study.over or bool(study.running) or bool(plan and due(study, plan))
    if goes_on:
        study.end()
    running = _running_jobs(study, plan, home) if plan else []
    if running and not goes_on:  # a refit that failed before is tried again
        study.end()
    for view in running:
        request_stop(view, reason)
    return goes_on or bool(running), [view.name for view in running]


def _running_jobs(study: Study, plan: TrialPlan, home: JobsHome) -> list[JobView]:
    """Return the jobs of trials, repetitions and refits that are not over."""
    def of_trial(name: str) -> JobView:
        # A job that this machine does not know was submitted on another one.
        return adopted(home, name) or JobView(name, store_from_url(plan.url_of(name)))

    found = []
    finders: list[Callable[[], JobView | None]] = [
        *(partial(of_trial, trial.job) for trial in study.running),
        *(partial(latest_attempt, home, name) for name in later_names(study, plan))]
    for find in finders:
        with contextlib.suppress(RunError):  # a job that cannot be read cannot be stopped; the others can
            if (view := find()) is not None and not view.refresh().phase.is_over:
                found.append(view)
    return found


def _check_unchanged(study: Study, spec: JobSpec, space: Space, options: Mapping[str, Any], url: str) -> None:
    changes: dict[str, Any] = {name: options[name] for name in ("strategy", "seed") if options.get(name) is not None}
    if options.get("maximize") or options.get("minimize"):
        changes["objectives"] = objectives_from(options.get("maximize") or (), options.get("minimize") or ())
    check_same(study.spec, replace(study.spec, space=space, **changes), url)
    before = TrialPlan.from_json(study.spec.details).spec.shown
    if before != spec.shown:
        raise StudyChanged(f"The study cannot be resumed, because the command was {shlex.join(before)}, now "
                           f"{shlex.join(spec.shown)}. Use another name ({url}).")


def _given(options: Mapping[str, Any], name: str, default: int) -> int:
    return default if options.get(name) is None else int(options[name])
