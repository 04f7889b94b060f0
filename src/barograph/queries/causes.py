"""What is most likely behind all that was found in a run: the suspicions of its findings, weighed together.

One fault shows in many ways: a learning rate that is too high makes large updates, a loss that rises, and
NaN in the end, and each of these is a finding. A rule that saw the thing itself (two softmax in one graph)
knows better than ten that saw what follows from it, so a cause is worth its strongest suspicion first, and
what others add can raise it by a part of what is missing only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from barograph.model.cause import Suspicion
from barograph.model.finding import Finding, FindingState, Severity

_ADDED_SHARE = 0.3
"""How much of what is missing to certainty others' suspicions may add to the strongest."""

_GONE = 0.8
"""What a suspicion is worth once its finding is gone: it was seen, and training got over it."""

_OF_A_NOTE = 0.5


@dataclass(frozen=True, slots=True)
class _Voice:
    suspicion: Suspicion
    opened_step: int


def diagnose(findings: Iterable[Finding]) -> tuple[Suspicion, ...]:
    """Return the causes that the findings suspect, the likeliest first.

    The weight of each is that of its strongest suspicion s, raised by 0.3 (1 − s) times what the suspicions of
    other rules come to together (1 − Π (1 − w)). A rule counts once for each cause, however many findings it has; a
    finding that is gone counts 0.8, a note half. Between equals the one that was suspected first comes first.

    Args:
        findings: Of one run, in any order.

    Returns:
        Each cause once, with the reason of its strongest suspicion, and the remedy of the strongest that has one.

    Example:
        >>> diagnose([])
        ()
    """
    voices: dict[str, dict[str, _Voice]] = {}
    for finding in findings:
        for place, suspicion in enumerate(finding.causes):
            # What the finding advises is meant for what it suspects first.
            remedy = suspicion.remedy or ("" if place else finding.remedy)
            weighed = replace(suspicion, weight=suspicion.weight * credit_of(finding), remedy=remedy)
            voice = _Voice(weighed, finding.opened_step)
            of_rules = voices.setdefault(suspicion.cause, {})
            of_rules[finding.code] = min((voice, of_rules.get(finding.code, voice)), key=_rank)
    causes = [_joined(list(of_rules.values())) for of_rules in voices.values()]
    return tuple(voice.suspicion for voice in sorted(causes, key=_rank))


def causes_in_order(finding: Finding, diagnosis: Iterable[Suspicion]) -> tuple[Suspicion, ...]:
    """Return the causes of one finding in the order that the whole run speaks for.

    Where another finding has a better reason for one of them, that reason and its remedy stand there.

    Args:
        finding: Of the run.
        diagnosis: Of the run, as `diagnose` returns it.
    """
    whole = {suspicion.cause: (number, suspicion) for number, suspicion in enumerate(diagnosis)}
    known = [whole.get(item.cause, (len(whole), item)) for item in finding.causes]
    in_order = sorted(zip(known, finding.causes, strict=True), key=lambda pair: pair[0][0])
    return tuple(replace(own, why=best.why, remedy=best.remedy) for (_, best), own in in_order)


def credit_of(finding: Finding) -> float:
    """Return what a finding's suspicions count: less once it is gone, or where it is a note."""
    gone = _GONE if finding.state is FindingState.CLOSED else 1.0
    return gone * (_OF_A_NOTE if finding.severity is Severity.NOTE else 1.0)


def _rank(voice: _Voice) -> tuple[float, int]:
    return -voice.suspicion.weight, voice.opened_step


def _joined(voices: list[_Voice]) -> _Voice:
    strongest, *others = sorted(voices, key=_rank)
    weight = strongest.suspicion.weight
    together = 1.0 - math.prod(1.0 - other.suspicion.weight for other in others)
    remedy = next((voice.suspicion.remedy for voice in (strongest, *others) if voice.suspicion.remedy), "")
    raised = replace(strongest.suspicion, weight=weight + _ADDED_SHARE * (1.0 - weight) * together, remedy=remedy)
    return _Voice(raised, min(voice.opened_step for voice in voices))
