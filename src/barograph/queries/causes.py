"""Likely causes of a run's findings: their suspicions, combined.

One fault has many symptoms: too high a learning rate causes large updates, a rising loss and finally NaN, each a
finding. A rule that detected the cause itself (two softmax in one graph) is worth more than ten that saw its effects.
So the weight of a cause is that of its strongest suspicion, and others can add only a share of what is missing to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from barograph.model.cause import Suspicion
from barograph.model.finding import Finding, FindingState, Severity

_ADDED_SHARE = 0.3
"""Share of what is missing to 1 that other suspicions may add to the strongest."""

_GONE = 0.8
"""Credit of a suspicion whose finding has closed: training recovered."""

_OF_A_NOTE = 0.5


@dataclass(frozen=True, slots=True)
class _Vote:
    suspicion: Suspicion
    opened_step: int


def diagnose(findings: Iterable[Finding]) -> tuple[Suspicion, ...]:
    """Return the causes suspected by the findings, likeliest first.

    The weight of each is that of its strongest suspicion s, raised by 0.3 (1 − s) times the combined weight of the
    suspicions of other rules, 1 − Π (1 − w). Each rule counts once per cause; a closed finding counts 0.8, a note half.
    Ties go to the cause suspected first.

    Args:
        findings: Findings of one run, in any order.

    Returns:
        Each cause once, with the reason of its strongest suspicion, and the remedy of the strongest that has one.

    Example:
        >>> diagnose([])
        ()
    """
    votes: dict[str, dict[str, _Vote]] = {}
    for finding in findings:
        for place, suspicion in enumerate(finding.causes):
            # The finding's own remedy belongs to its first suspicion.
            remedy = suspicion.remedy or ("" if place else finding.remedy)
            weighed = replace(suspicion, weight=suspicion.weight * credit_of(finding), remedy=remedy)
            vote = _Vote(weighed, finding.opened_step)
            of_rules = votes.setdefault(suspicion.cause, {})
            of_rules[finding.code] = min((vote, of_rules.get(finding.code, vote)), key=_rank)
    causes = [_joined(list(of_rules.values())) for of_rules in votes.values()]
    return tuple(vote.suspicion for vote in sorted(causes, key=_rank))


def causes_in_order(finding: Finding, diagnosis: Iterable[Suspicion]) -> tuple[Suspicion, ...]:
    """Return the causes of one finding, ordered by the diagnosis of the whole run.

    Each has the reason and remedy of its strongest suspicion in the run.

    Args:
        finding: A finding of the run.
        diagnosis: Result of `diagnose` for the run.
    """
    whole = {suspicion.cause: (number, suspicion) for number, suspicion in enumerate(diagnosis)}
    known = [whole.get(item.cause, (len(whole), item)) for item in finding.causes]
    in_order = sorted(zip(known, finding.causes, strict=True), key=lambda pair: pair[0][0])
    return tuple(replace(own, why=best.why, remedy=best.remedy) for (_, best), own in in_order)


def credit_of(finding: Finding) -> float:
    """Return the factor for a finding's suspicions: lower if it is closed or a note."""
    gone = _GONE if finding.state is FindingState.CLOSED else 1.0
    return gone * (_OF_A_NOTE if finding.severity is Severity.NOTE else 1.0)


def _rank(vote: _Vote) -> tuple[float, int]:
    return -vote.suspicion.weight, vote.opened_step


def _joined(votes: list[_Vote]) -> _Vote:
    strongest, *others = sorted(votes, key=_rank)
    weight = strongest.suspicion.weight
    together = 1.0 - math.prod(1.0 - other.suspicion.weight for other in others)
    remedy = next((vote.suspicion.remedy for vote in (strongest, *others) if vote.suspicion.remedy), "")
    raised = replace(strongest.suspicion, weight=weight + _ADDED_SHARE * (1.0 - weight) * together, remedy=remedy)
    return _Vote(raised, min(vote.opened_step for vote in votes))
