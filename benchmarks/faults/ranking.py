"""Which cause a run's findings name first."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable

from barograph.model.cause import Suspicion
from barograph.model.finding import Finding

DIAGNOSIS = "barograph.watch.diagnosis"


def causes_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the causes that are suspected, the likeliest first, as Barograph itself ranks them where it does."""
    findings = tuple(findings)
    if importlib.util.find_spec(DIAGNOSIS) is not None:
        ranked = importlib.import_module(DIAGNOSIS).diagnose(findings)
    else:
        ranked = added_up(findings)
    return tuple(str(item.cause) for item in ranked)


def added_up(findings: Iterable[Finding]) -> tuple[Suspicion, ...]:
    """Return each cause once, heaviest first, with 1 − Π(1 − w) over the weights w that findings give it.

    So two findings that each half suspect a cause make three quarters, and one that saw it outweighs both.
    """
    unlikely: dict[str, float] = {}
    for finding in findings:
        for suspicion in finding.causes:
            unlikely[suspicion.cause] = unlikely.get(suspicion.cause, 1.0) * (1.0 - suspicion.weight)
    ranked = [Suspicion(str(cause), 1.0 - left) for cause, left in unlikely.items()]
    return tuple(sorted(ranked, key=lambda item: (-item.weight, item.cause)))
