"""Decides whether the problems of a run are a reason to stop its trial."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from barograph.model.cause import Cause
from barograph.model.finding import FindingState, Severity
from barograph.queries.problems import Problem
from barograph.queries.titles import SURE, kind_of_problem
from barograph.rules.words import number
from barograph.tune.spec import Objective
from barograph.tune.trial import Trial

HOPELESS = frozenset({"A101", "A103", "G101", "G103", "L101", "L105", "L108", "N101", "N102", "N104", "W101"})
"""Rules whose problems a trial does not recover from, if the cause is known: dead, diverged, not learning."""
_OF_DATA = frozenset({Cause.LABELS_UNRELATED, Cause.LABELS_OFF_BY_ONE, Cause.INPUT_NOT_NORMALIZED,
                      Cause.CLASS_IMBALANCE, Cause.UNSHUFFLED_DATA})
"""Causes that all trials share, because they train on the same data."""
_LEARNED = 0.1
"""Share by which a trial must be better than another one to show that the data can be learned."""
_BETTER = 0.01
"""Share by which a report must be better than another one to count as better."""
_LATEST = 3
"""Number of reports whose median tells whether a trial learns: a diverged one is now and then better by chance."""
_FEWEST_PEERS = 3


def reason_to_give_up(
    problems: Iterable[Problem], trial: Trial, others: Iterable[Trial], objective: Objective
) -> str:
    """Return why a trial should stop because of the problems of its run; "" if it should go on.

    A breaking problem is reason enough. A costly one needs a known cause, and the trial must not do well at the same
    report: findings are evidence, results are proof. If the data is the cause, no other trial may have learned from it.

    Args:
        problems: Problems of its run.
        trial: The trial.
        others: All other trials of the study.
        objective: The objective that curves are of.
    """
    others = list(others)
    for problem in problems:
        if problem.state is not FindingState.OPEN or problem.cause == Cause.SCRIPT_ERROR:
            continue
        if problem.findings[0].code not in HOPELESS:
            continue
        if problem.severity is Severity.BREAKING or (
                problem.severity is Severity.COSTLY and problem.cause and problem.weight >= SURE
                and not _does_well(trial, others, objective)
                and not (problem.cause in _OF_DATA and _learned(trial, others, objective))):
            return _reason(problem)
    return ""


def _reason(problem: Problem) -> str:
    """Return the kind of a problem, and what differs between trials after a colon: equal kinds make a region."""
    kind = kind_of_problem(problem.cause, problem.weight, problem.findings[0])
    if problem.cause == Cause.LEARNING_RATE_TOO_HIGH and problem.remedy.old is not None:
        details = f"lr {number(problem.remedy.old)}, "
    else:
        details = "" if problem.title == kind else f"{problem.title}, "
    return f"{kind}: {details}since step {problem.since_step:,}"


def _does_well(trial: Trial, others: Iterable[Trial], objective: Objective) -> bool:
    """Return whether a trial is better than the median of the others after as many reports, or as good and learns.

    It learns if its latest reports are better than its first, by more than what a network of dead units gains, which
    still learns the class frequencies. With few others, that decides alone.
    """
    losses = _losses(trial, objective)
    if not losses:
        return False
    learns = _is_better(median(losses[1:][-_LATEST:] or losses), losses[0])
    peers = [found[len(losses) - 1] for other in others if len(found := _losses(other, objective)) >= len(losses)]
    if len(peers) < _FEWEST_PEERS:
        return learns
    middle = median(peers)
    return _is_better(losses[-1], middle) or (losses[-1] <= middle and (learns or len(losses) == 1))


def _is_better(loss: float, other: float) -> bool:
    return loss < other - _BETTER * abs(other)


def _learned(trial: Trial, others: Iterable[Trial], objective: Objective) -> bool:
    """Return whether another trial is clearly better: the data is the same, so it is not to blame."""
    mine = min(_losses(trial, objective), default=math.inf)
    best = min((loss for other in others for loss in _losses(other, objective)), default=math.inf)
    return best < (mine - _LEARNED * abs(mine) if math.isfinite(mine) else math.inf)


def _losses(trial: Trial, objective: Objective) -> Sequence[float]:
    return [objective.loss(trial.curve[step]) for step in sorted(trial.curve)]
