"""Ranking of suspected causes, and the facts of a run that support them."""

from __future__ import annotations

import math

from barograph.model.cause import Suspicion
from barograph.model.facts import Fact
from barograph.rules.base import Memory
from barograph.rules.facts import all_facts
from barograph.rules.once import once
from barograph.runs.reading.view import StepView

FAR_LOSS = 20.0
"""No well-initialized classifier starts with such a loss: ln C is 20 for half a billion classes. If a loss was
never below it, the initialization was too far off for any learning rate."""



def ranked(*suspicions: Suspicion | None) -> tuple[Suspicion, ...]:
    """Return the suspicions, strongest first, each cause once (with its strongest evidence); ignores None.

    Example:
        >>> [item.cause for item in ranked(Suspicion("a", 0.2), None, Suspicion("b", 0.9), Suspicion("a", 0.5))]
        ['b', 'a']
    """
    best: dict[str, Suspicion] = {}
    for item in suspicions:
        if item is not None and (item.cause not in best or item.weight > best[item.cause].weight):
            best[item.cause] = item
    return tuple(sorted(best.values(), key=lambda item: -item.weight))


def remember_facts(view: StepView, memory: Memory, *names: Fact) -> dict[str, float]:
    """Add the step's facts with these names; return all facts so far, by path.

    Facts are recorded rarely, so a value holds until the next one.
    """
    known: dict[str, float] = memory.setdefault("facts", {})
    facts = all_facts(view)
    for name in names:
        for about, value in facts[name].items() if name in facts else ():
            if math.isfinite(value):
                known[f"{name.value}[{about}]" if about else name.value] = value
    return known


def about(known: dict[str, float], name: Fact) -> dict[str, float]:
    """Return the values of one fact by subject; "" is the fact as a whole.

    Example:
        >>> about({"outside_optimizer": 2.0, "outside_optimizer[fc.bias]": 1.0}, Fact.OUTSIDE_OPTIMIZER)
        {'': 2.0, 'fc.bias': 1.0}
    """
    found = {}
    for path, value in known.items():
        head, _, rest = path.partition("[")
        if head == name:
            found[rest.removesuffix("]")] = value
    return found


def momentum_in(known: dict[str, float]) -> float:
    """Return the largest momentum of any parameter group; 0 if none was recorded.

    Example:
        >>> momentum_in({"momentum[group0]": 0.9, "momentum[group1]": 0.5})
        0.9
    """
    return max(about(known, Fact.MOMENTUM).values(), default=0.0)


def said_to_be(known: dict[str, float], name: Fact) -> bool:
    """Return whether a fact was recorded and is not 0."""
    return any(about(known, name).values())


@once
def recurrent(classes: tuple[str, ...]) -> bool:
    """Return whether any of these module classes is recurrent."""
    return any(item.startswith(("LSTM", "GRU", "RNN")) for item in classes)
