"""Rules that stop trials early because others were better at the same step. Each is a function of the curves so far.

No trial waits for another: a trial is compared with those that have reached the step, whether they run or not.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from statistics import median

from barograph.tune.spec import Objective, Stopping
from barograph.tune.trial import Trial, TrialState

_DIGITS = 4
_GRACE = 5
"""The median rule compares after one part in so many of the steps of a finished trial: before, curves tell mostly how
the weights were initialized."""


class RunningAverages:
    """Averages of the curves of trials that ended up to each step; computed once for each trial, which must be kept."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[list[int], list[float]]] = {}

    def at(self, trial: Trial, step: int, objective: Objective) -> float | None:
        """Return the average loss of a trial up to a step; None if it did not reach the step."""
        steps, averages = self._of(trial, objective)
        place = bisect.bisect_right(steps, step)
        return averages[place - 1] if place and steps[-1] >= step else None

    def last_step(self, trial: Trial, objective: Objective) -> int:
        """Return the step of the last report of a trial with a curve."""
        return self._of(trial, objective)[0][-1]

    def _of(self, trial: Trial, objective: Objective) -> tuple[list[int], list[float]]:
        if id(trial) not in self._known:
            steps = sorted(trial.curve)
            sums = itertools.accumulate(objective.loss(trial.curve[one]) for one in steps)
            self._known[id(trial)] = steps, [total / count for count, total in enumerate(sums, 1)]
        return self._known[id(trial)]


def reason_to_stop(
    trial: Trial, others: Iterable[Trial], objective: Objective, stopping: Stopping,
    averages: RunningAverages | None = None,
) -> str:
    """Return why a trial should stop after its latest report; "" if it should go on.

    Args:
        trial: The trial.
        others: All other trials of the study.
        objective: The objective that the curves are of.
        stopping: The rules, and their settings.
        averages: Those of trials that ended, from one call to the next.
    """
    if not trial.curve:
        return ""
    averages = averages or RunningAverages()
    found: list[Trial] = []

    def peers() -> list[Trial]:  # most reports are at no rung and need none
        if not found:
            found.extend(one for one in others if one.curve and one.origin.bracket == trial.origin.bracket)
        return found

    for rule in stopping.rules:
        reason = _asha(trial, peers, objective, stopping) if rule == "asha" else _median(
            trial, peers, objective, stopping, averages)
        # Nothing is saved at the end, and a metric that arrives only once arrives there.
        if reason and max(trial.curve) < max(_lengths(peers(), objective, averages), default=math.inf):
            return reason
    return ""


def _lengths(peers: Iterable[Trial], objective: Objective, averages: RunningAverages) -> list[int]:
    """Return the last steps of the trials that finished."""
    return [averages.last_step(peer, objective) for peer in peers if peer.state is TrialState.FINISHED]


def _asha(trial: Trial, peers: Callable[[], list[Trial]], objective: Objective, stopping: Stopping) -> str:
    """Asynchronous successive halving: at each rung, the best 1/factor of all trials that have reached it continue.

    Source: Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020; the variant that stops instead of
    pausing is that of Ray Tune. Ours also counts trials that have not reached the rung, if they were better before.
    """
    steps = sorted(trial.curve)
    before = steps[-2] if len(steps) > 1 else 0
    rung, part = stopping.min_step * stopping.factor ** trial.origin.bracket, 1
    while rung <= steps[-1]:
        part *= stopping.factor
        if rung > before:  # reached with the latest report
            mine = objective.loss(trial.curve[steps[-1]])
            found = [objective.loss(value) for peer in peers()
                     if (value := _value_at(peer.curve, rung)) is not None]
            better = sum(loss < mine for loss in found)
            # Of n trials the best n / factor go on, and always the best one.
            if better >= max(1, (len(found) + 1) // stopping.factor):
                return (f"rank {better + 1} of {len(found) + 1} at step {steps[-1]}, with {objective.name} "
                        f"{_text(trial.curve[steps[-1]])}: the best 1/{stopping.factor} go on")
            if reason := _overtaken(trial, peers(), objective, part):
                return reason
        rung *= stopping.factor
    return ""


def _overtaken(trial: Trial, peers: list[Trial], objective: Objective, part: int) -> str:
    """Return why a trial should stop that is not among the best 1/part of all trials; "" if it may be.

    Only trials that were better with fewer steps rank above it for sure. Without them, the first trials at a rung
    would go on although later ones are better already.
    """
    step, best = max(trial.curve), min(map(objective.loss, trial.curve.values()))
    better = sum(any(at < step and objective.loss(value) < best for at, value in peer.curve.items()) for peer in peers)
    count = len(peers) + 1
    if better < max(1, count / part):
        return ""
    return (f"{better} of {count} trials were better with fewer steps: the best {objective.name} up to step {step} is "
            f"{_text(objective.loss(best))}, and the best 1/{part} go on")


def _median(
    trial: Trial, peers: Callable[[], list[Trial]], objective: Objective, stopping: Stopping, averages: RunningAverages
) -> str:
    """The median rule of SageMaker and Vizier: the best value so far against the median of the running averages."""
    step = max(trial.curve)
    if step < stopping.min_step:
        return ""
    lengths = _lengths(peers(), objective, averages)
    if lengths and step * _GRACE < median(lengths):
        return ""
    found = [average for peer in peers() if peer.state.is_over
             if (average := averages.at(peer, step, objective)) is not None]
    if len(found) < stopping.warmup_trials:
        return ""
    middle = median(found)
    mine = min(objective.loss(value) for value in trial.curve.values())
    if mine <= middle:
        return ""
    return (f"worse than the median of {len(found)} trials, {_text(objective.loss(middle))}: the best {objective.name} "
            f"up to step {step} is {_text(objective.loss(mine))}")


def _value_at(curve: Mapping[int, float], step: int) -> float | None:
    """Return the value of the first report at or after a step."""
    steps = sorted(curve)
    at = bisect.bisect_left(steps, step)
    return curve[steps[at]] if at < len(steps) else None


def _text(value: float) -> str:
    return f"{value:.{_DIGITS}g}"
