"""Results of a study as data, for the terminal, the web UI, notebooks and reports."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.errors import BadSpace, RunError, StoreError, TuneError
from barograph.jobs.outputs import has_model
from barograph.jobs.spec import JobSpec
from barograph.model.plain import plain
from barograph.store.urls import store_from_url
from barograph.tune.analysis import HopelessRegion, Importance, hopeless_regions, importance
from barograph.tune.completion import failure_of_all
from barograph.tune.confirmation import Confirmation
from barograph.tune.live_values import Latest
from barograph.tune.parameter import Choice, Value
from barograph.tune.space import Parameter
from barograph.tune.spec import Objective
from barograph.tune.study import Study
from barograph.tune.trial import Trial, TrialState
from barograph.tune.trial_plan import TrialPlan, is_plan, text_of
from barograph.watch.figures import count, figure


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A study in a list.

    Attributes:
        name: Its name.
        state: As `state_of`; "unreadable" if `problem` says why it cannot be read.
        objectives: What it optimizes, such as "maximize accuracy".
        strategy: Requested strategy.
        trials, finished, running: Number of trials, and of those in that state.
        limit: Number of trials after which it ends; None if no number was given.
        best: Best value of the first objective; NaN if no trial finished.
        best_trial: Number of that trial.
        changed_unix: When a trial last started or ended; NaN if none did.
        problem: Why it cannot be read; "" if it can.
    """

    name: str
    state: str
    objectives: tuple[str, ...] = ()
    strategy: str = ""
    trials: int = 0
    finished: int = 0
    running: int = 0
    limit: int | None = None
    best: float = math.nan
    best_trial: int | None = None
    changed_unix: float = math.nan
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        data: dict[str, Any] = plain(self)
        return data


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """A parameter of a study.

    Attributes:
        name: Its name.
        text: Its values as they are typed, such as "1e-5..1e-1:log".
        is_log: Whether its axis should be logarithmic.
        choices: All values of a choice, in order; empty for a range.
    """

    name: str
    text: str
    is_log: bool
    choices: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class TrialInfo:
    """A trial of a study.

    Attributes:
        number: Its number, from 0.
        state: "running", "finished", "stopped" or "failed".
        parameters: Name to value.
        values: One for each objective; empty if it has none.
        reason: Why it was stopped or failed.
        cause: What stopped it: "rule", "finding" or "user"; None if it was not stopped.
        proposer: What proposed its parameters, such as "gp".
        why: Why it proposed them, one sentence.
        job: Name of its job; "" if it has none.
        started_secs, ended_secs: Time since the first trial started; `ended_secs` is None while it runs.
        cost: Its cost.
        step: Last step that was reported; None if none was.
        last: Value of the first objective there; NaN if none.
    """

    number: int
    state: TrialState
    parameters: Mapping[str, Value]
    values: tuple[float, ...]
    reason: str
    cause: str | None
    proposer: str
    why: str
    job: str
    started_secs: float
    ended_secs: float | None
    cost: float
    step: int | None
    last: float


@dataclass(frozen=True, slots=True)
class BestTrial:
    """The best trial of a study, and how to use it.

    Attributes:
        trial: Its number.
        command: Command line that trains it again; "" for a function.
        rerun: Command that submits its job again.
        model: Command that copies its model; "" if it left none.
    """

    trial: int
    command: str = ""
    rerun: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Improvement:
    """A trial that was better than all before it.

    Attributes:
        trial: Its number.
        secs: When it ended, in seconds since the first trial started.
        value: Its value of the first objective.
    """

    trial: int
    secs: float
    value: float


@dataclass(frozen=True, slots=True)
class HopelessPart:
    """A part of the search space where every trial ended badly for one reason.

    Attributes:
        name: Name of the parameter.
        text: A sentence: "lr ≥ 0.3: 6 of 6: diverged".
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class StudyOverview:
    """A study with its trials and results.

    Attributes:
        name: Its name.
        state: As `state_of`.
        over: Why no more trials are started; "" if there may be more.
        verdict: What it found, one sentence.
        objectives: What it optimizes.
        strategy, seed: Strategy and seed of the search.
        limit: Number of trials after which it ends; None if no number was given.
        secs: Time that processes have worked on it, in seconds.
        started_unix: When its first trial started; NaN if none did.
        cost: Sum of the costs of its trials.
        about: Which strategies were used and why, one sentence each.
        problems: What could not be read.
        parameters: The search space.
        constraints: Conditions that every trial meets.
        trials: All trials, by number.
        best: The best trial; None if no trial finished.
        best_by_trial, best_by_time: Improvements in the order of numbers, and in the order in which trials ended.
        importance: Parameters, the most important first; empty with few trials.
        hopeless: Parts of the space where every trial failed for one reason.
        front: Numbers of the trials that no other trial dominates.
        confirmation: Whether the best trial is better than the next; None if it was not repeated.
    """

    name: str
    state: str
    over: str
    verdict: str
    objectives: tuple[Objective, ...]
    strategy: str
    seed: int
    limit: int | None
    secs: float
    started_unix: float
    cost: float
    about: tuple[str, ...]
    problems: tuple[str, ...]
    parameters: tuple[ParameterInfo, ...]
    constraints: tuple[str, ...]
    trials: tuple[TrialInfo, ...]
    best: BestTrial | None
    best_by_trial: tuple[Improvement, ...]
    best_by_time: tuple[Improvement, ...]
    importance: tuple[Importance, ...]
    hopeless: tuple[HopelessPart, ...]
    front: tuple[int, ...]
    confirmation: Confirmation | None

    def to_json(self) -> dict[str, Any]:
        """Return JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def study_row(name: str, study: Study) -> StudyRow:
    """Return a study as a row of a list."""
    best = best_of(study)
    times = [time for trial in study.trials for time in (trial.started_unix, trial.ended_unix) if time is not None]
    return StudyRow(
        name, state_of(study), tuple(map(str, study.spec.objectives)), study.spec.strategy, len(study.trials),
        sum(trial.state is TrialState.FINISHED for trial in study.trials), len(study.running),
        study.limit, best.value if best else math.nan, best.number if best else None,
        max(times, default=math.nan))


def overview_of(study: Study, name: str) -> StudyOverview:
    """Return everything that a study found.

    Args:
        study: The study.
        name: Its name.
    """
    start = min((trial.started_unix for trial in study.trials if trial.started_unix), default=math.nan)
    best = best_of(study)
    finished = [trial for trial in study.trials if trial.state is TrialState.FINISHED]
    improvements = _improvements(study.objective, start)
    spec, latest = study.spec, study.latest()
    return StudyOverview(
        name=name, state=state_of(study), over=study.over, verdict=verdict_of(study), objectives=spec.objectives,
        strategy=spec.strategy, seed=spec.seed, limit=study.limit, secs=study.secs, started_unix=start,
        cost=sum(trial.cost for trial in study.trials), about=tuple(study.about()), problems=_problems(study),
        parameters=tuple(map(_parameter, study.space)),
        constraints=tuple(constraint.text for constraint in study.space.constraints),
        trials=tuple(_trial(trial, start, latest.get(trial.number)) for trial in study.trials),
        best=best_trial(study, best) if best else None, best_by_trial=improvements(finished),
        best_by_time=improvements(sorted(finished, key=lambda trial: trial.ended_unix or 0.0)),
        importance=tuple(importance(study)), hopeless=tuple(map(_hopeless, hopeless_regions(study))),
        front=tuple(trial.number for trial in study.front) if len(spec.objectives) > 1 else (),
        confirmation=study.confirmation)


def state_of(study: Study) -> str:
    """Return whether a study is "running", "finished", "stopped" before its end, or "failed" like all its trials."""
    if study.running:
        return "running"
    if not study.over or study.was_stopped:
        return "stopped"
    return "failed" if failure_of_all(study.trials) else "finished"


def best_of(study: Study) -> Trial | None:
    """Return the best trial; None if no trial has finished."""
    try:
        return study.best
    except TuneError:
        return None


def best_trial(study: Study, best: Trial) -> BestTrial:
    """Return how to train a trial again and how to get its model."""
    if (plan := plan_of(study)) is None or not best.job:
        return BestTrial(best.number)
    spec = plan.job_spec(best.job, best.parameters, names=study.space.names)
    job = study.refitted.job if study.refitted else best.job
    return BestTrial(best.number, command_of(spec), f"barograph resubmit {job}",
                     f"barograph wait {job} --model DIR" if _left_model(plan.url_of(job)) else "")


def _left_model(url: str) -> bool:
    try:
        return has_model(store_from_url(url))
    except (StoreError, RunError):
        return True  # unknown


def command_of(spec: JobSpec) -> str:
    """Return the command line of a job as one types it: of its script, or of Barograph for a built-in algorithm.

    Example:
        >>> command_of(JobSpec(algorithm="linear", data={"train": "a.csv"}, hyperparameters={"alpha": "0.1"}))
        'barograph submit --algorithm linear --data train=a.csv alpha=0.1'
        >>> command_of(JobSpec(("train.py",), hyperparameters={"lr": "0.1"}))
        'python train.py --lr 0.1'
    """
    if not spec.algorithm:
        return shlex.join((*(["python"] if spec.words[0].endswith(".py") else []), *spec.words))
    data = [word for name, source in spec.data.items() for word in ("--data", f"{name}={source}")]
    target = ["--target", spec.target] if spec.target else []
    return shlex.join(["barograph", "submit", "--algorithm", spec.algorithm, *data, *target,
                       *(f"{name}={value}" for name, value in spec.hyperparameters.items())])


def plan_of(study: Study) -> TrialPlan | None:
    """Return how the trials are trained as jobs; None if the study tunes a function."""
    return TrialPlan.from_json(study.spec.details) if is_plan(study.spec.details) else None


def verdict_of(study: Study) -> str:
    """Return what a study found, one sentence.

    Example:
        >>> study = Study.create(None, {"x": [1, 2]}, minimize="loss")
        >>> for x in (2, 1):
        ...     _ = study.add({"x": x}, x / 4)
        >>> verdict_of(study)
        'Trial 1 is the best of 2: loss 0.25 with x=1.'
    """
    trials, best = study.trials, best_of(study)
    if not trials:
        return "No trial has started yet."
    if best is None:
        if cause := failure_of_all(trials):
            return f"No trial finished. {cause[:1].upper()}{cause[1:]}"
        states = Counter(trial.state for trial in trials)
        counts = ", ".join(f"{states[state]} {state}" for state in TrialState if states[state])
        if study.running or not study.over:
            return f"No trial has finished yet: {counts}."
        reason, times = Counter(trial.reason for trial in trials).most_common(1)[0]
        share = "" if times == len(trials) else f", {times} of them with"
        return f"No trial finished: {counts}{share}: {reason}"
    if len(study.spec.objectives) > 1:
        front = len(study.front)
        return (f"{count(front, 'trial')} of {len(trials):,} {'is' if front == 1 else 'are'} on the Pareto front: no "
                "other trial is better in all objectives.")
    among = "so far" if study.running else f"of {len(trials):,}"
    return (f"Trial {best.number} is the best {among}: {study.objective.name} {figure(best.value)} with "
            f"{parameters_text(best)}.")


def parameters_text(trial: Trial) -> str:
    """Return the parameters of a trial in a line: "lr=0.01, width=64"."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in trial.parameters.items())


def value_text(value: Value) -> str:
    """Return the value of a parameter in a few characters."""
    return figure(value) if isinstance(value, float) else text_of(value)


def parameter_value(trial: TrialInfo, name: str) -> str:
    """Return the value of a parameter of a trial in a few characters; "" if it does not apply."""
    return value_text(trial.parameters[name]) if name in trial.parameters else ""


def _problems(study: Study) -> tuple[str, ...]:
    if not study.damaged:
        return ()
    if study.damaged == 1:
        return ("1 event is damaged. Its trial may be missing or look unfinished.",)
    return (f"{study.damaged:,} events are damaged. Their trials may be missing or look unfinished.",)


def _parameter(parameter: Parameter) -> ParameterInfo:
    domain = parameter.domain
    choices = domain.values if isinstance(domain, Choice) else ()
    text = str(parameter).removeprefix(f"{parameter.name}=")
    return ParameterInfo(parameter.name, text, not isinstance(domain, Choice) and domain.is_log, choices)


def _trial(trial: Trial, start: float, latest: Latest | None) -> TrialInfo:
    step, last = latest or max(trial.curve.items(), default=(None, math.nan))
    return TrialInfo(
        trial.number, trial.state, trial.parameters, trial.values, trial.reason, trial.cause and str(trial.cause),
        trial.origin.proposer, trial.origin.why, trial.job, max(trial.started_unix - start, 0.0),
        None if trial.ended_unix is None else max(trial.ended_unix - start, 0.0), trial.cost, step,
        last)


def _hopeless(region: HopelessRegion) -> HopelessPart:
    return HopelessPart(region.name, str(region))


def _improvements(objective: Objective, start: float) -> Callable[[Iterable[Trial]], tuple[Improvement, ...]]:
    def among(trials: Iterable[Trial]) -> tuple[Improvement, ...]:
        found: list[Improvement] = []
        for trial in trials:
            if not found or objective.loss(trial.value) < objective.loss(found[-1].value):
                found.append(Improvement(trial.number, max((trial.ended_unix or start) - start, 0.0), trial.value))
        return tuple(found)
    return among


def check_parameters(study: Study, names: Sequence[str]) -> None:
    """Raise `BadSpace` unless the study has these parameters, all different."""
    for name in names:
        if name not in study.space.names:
            raise BadSpace(f'The study has no parameter "{name}".')
    if len(set(names)) < len(names):
        raise BadSpace("Choose two different parameters.")
