"""Rules that stop trials early because others were better at the same step. Each is a function of the curves so far.

No trial waits for another: a trial is compared with those that have reached the step, whether they run or not.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from statistics import median

from barograph.tune.spec import Objective, Stopping
from barograph.tune.trial import Trial

_DIGITS = 4


def reason_to_stop(trial: Trial, others: Iterable[Trial], objective: Objective, stopping: Stopping) -> str:
    """Return why a trial should stop after its latest report; "" if it should go on.

    Args:
        trial: The trial.
        others: All other trials of the study.
        objective: The objective that the curves are of.
        stopping: The rules, and their settings.
    """
    if not trial.curve:
        return ""
    peers = [other for other in others if other.curve and other.origin.bracket == trial.origin.bracket]
    for rule in stopping.rules:
        compare = _asha if rule == "asha" else _median
        if reason := compare(trial, peers, objective, stopping):
            return reason
    return ""


def _asha(trial: Trial, peers: list[Trial], objective: Objective, stopping: Stopping) -> str:
    """Asynchronous successive halving: at each rung, the best 1/factor of all trials that have reached it continue.

    Source: Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020; the variant that stops instead of
    pausing is that of Ray Tune.
    """
    steps = sorted(trial.curve)
    before = steps[-2] if len(steps) > 1 else 0
    rung = stopping.min_step * stopping.factor ** trial.origin.bracket
    while rung <= steps[-1]:
        if rung > before:  # reached with the latest report
            mine = objective.loss(trial.curve[steps[-1]])
            found = [objective.loss(value) for peer in peers if (value := _value_at(peer.curve, rung)) is not None]
            better = sum(loss < mine for loss in found)
            # Of n trials the best n / factor go on, and always the best one.
            if better >= max(1, (len(found) + 1) // stopping.factor):
                return (f"{objective.name} {_text(trial.curve[steps[-1]])} at step {steps[-1]}: rank {better + 1} of "
                        f"{len(found) + 1}, and the best 1/{stopping.factor} go on")
        rung *= stopping.factor
    return ""


def _median(trial: Trial, peers: list[Trial], objective: Objective, stopping: Stopping) -> str:
    """The median rule of SageMaker and Vizier: the best value so far against the median of the running averages."""
    step = max(trial.curve)
    if step < stopping.min_step:
        return ""
    averages = [average for peer in peers if peer.state.is_over and max(peer.curve) >= step
                if (average := _average(peer.curve, step, objective)) is not None]
    if len(averages) < stopping.warmup_trials:
        return ""
    middle = median(averages)
    mine = min(objective.loss(value) for value in trial.curve.values())
    if mine <= middle:
        return ""
    return (f"the best {objective.name} up to step {step}, {_text(objective.loss(mine))}, is worse than the median of "
            f"{len(averages)} trials, {_text(objective.loss(middle))}")


def _value_at(curve: Mapping[int, float], step: int) -> float | None:
    """Return the value of the first report at or after a step."""
    steps = sorted(curve)
    at = bisect.bisect_left(steps, step)
    return curve[steps[at]] if at < len(steps) else None


def _average(curve: Mapping[int, float], step: int, objective: Objective) -> float | None:
    values = [objective.loss(value) for at, value in curve.items() if at <= step]
    return sum(values) / len(values) if values else None


def _text(value: float) -> str:
    return f"{value:.{_DIGITS}g}"
