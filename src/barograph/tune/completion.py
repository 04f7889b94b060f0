"""Whether a study is complete, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from barograph.tune.spec import Completion, Objective
from barograph.tune.trial import Trial, TrialState
from barograph.watch.figures import count, duration, figure


def reason_to_end(
    trials: Sequence[Trial], ended: Sequence[Trial], objective: Objective, completion: Completion, *, secs: float
) -> str:
    """Return why no trial should be started any more; "" if the study goes on.

    Args:
        trials: All trials of the study, in order.
        ended: Trials that have ended, in the order in which they ended.
        objective: The first objective.
        completion: The criteria.
        secs: Time that the study has taken.
    """
    if completion.trials is not None and len(trials) >= completion.trials:
        # Counted only now, because a study asks after each of its trials.
        excused = sum(trial.excused for trial in trials)
        if len(trials) - excused >= completion.trials:
            return (f"it reached its limit of {count(completion.trials, 'trial')}"
                    f"{f', not counting {excused:,} that failed before it was resumed' if excused else ''}")
    if completion.secs is not None and secs >= completion.secs:
        return f"it reached its time limit of {duration(completion.secs)}"
    if completion.cost is not None and (cost := sum(trial.cost for trial in trials)) >= completion.cost:
        return f"its trials cost {figure(cost)} (limit {completion.cost:g})"
    if common_failure(trials, completion.failures):
        return failure_of_all(trials)
    return _by_value(ended, objective, completion)


def common_failure(trials: Sequence[Trial], least: int) -> str:
    """Return the common cause if `least` trials and more failed and no other has ended; else ""."""
    if len(trials) < least or any(trial.state not in (TrialState.FAILED, TrialState.RUNNING)
                                  for trial in trials[:1000]):
        return ""
    reasons = Counter(trial.reason for trial in trials if trial.state is TrialState.FAILED)
    failed = sum(reasons.values())
    if failed < least:
        return ""
    reason, times = reasons.most_common(1)[0]
    if len(trials) == 1:
        return f"the only trial failed with: {reason}"
    if failed == 1:
        return f"the only trial that ended failed with: {reason}"
    if times == failed:
        return f"all {failed} trials failed with: {reason}"
    return f"all {failed} trials failed, {times} of them with: {reason}"


def failure_of_all(trials: Sequence[Trial]) -> str:
    """Return the common cause if all trials failed, of those since the study tried again if there are any; else ""."""
    return common_failure([trial for trial in trials if not trial.excused] or trials, 1)


def tried_again(completion: Completion, trials: Sequence[Trial], *, was_over: bool) -> Completion:
    """Return the criteria with which a study goes on: if all its trials failed, so many may fail once more."""
    if not common_failure(trials, 1 if was_over else completion.failures):
        return completion
    failed = sum(trial.state is TrialState.FAILED for trial in trials)
    return replace(completion, failures=failed + Completion().failures)


def _by_value(ended: Sequence[Trial], objective: Objective, completion: Completion) -> str:
    if completion.target is None and completion.patience is None:
        return ""
    # A trial that was stopped or failed is no improvement.
    losses = [objective.loss(trial.value) if trial.state is TrialState.FINISHED else math.inf for trial in ended]
    if min(losses, default=math.inf) == math.inf:
        return ""
    if completion.target is not None and min(losses) <= objective.loss(completion.target):
        return f"{objective.name} reached the target of {completion.target:g}"
    if completion.patience is not None and _idle(losses, completion.improvement) >= completion.patience:
        return (f"no improvement of {objective.name} by {completion.improvement:.0%} in {completion.patience} trials")
    return ""


def _idle(losses: Sequence[float], improvement: float) -> int:
    """Return the number of values since the last one that improved the best by a share of it.

    Those before the first finite value do not count.
    """
    best, idle = math.inf, 0
    for loss in losses:
        if math.isinf(best):
            best = loss
        elif loss < best - improvement * abs(best):
            best, idle = loss, 0
        else:
            idle += 1
    return idle
