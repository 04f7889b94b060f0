"""What a rule says of causes, put in order, and the facts of a run that speak for one or another."""

from __future__ import annotations

import math

from barograph.model.cause import Suspicion
from barograph.model.facts import Fact
from barograph.rules.base import Memory
from barograph.rules.facts import all_facts
from barograph.rules.once import once
from barograph.runs.reading.view import StepView

FAR_LOSS = 20.0
"""No loss over classes begins there in a model that was initialised well: ln C is 20 for half a billion of them. Where
a loss was never below that, the model began too far out for any learning rate."""



def ranked(*suspicions: Suspicion | None) -> tuple[Suspicion, ...]:
    """Return the suspicions, strongest first, each cause once (with its strongest evidence); None is passed over.

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
    """Take in the step's facts of these names; return all that were seen so far, by path.

    Facts are recorded seldom, so what a fact said last holds until it is said again. What is remembered is as much
    as is named: a fact about parameters names a few of them.
    """
    known: dict[str, float] = memory.setdefault("facts", {})
    facts = all_facts(view)
    for name in names:
        for about, value in facts[name].items() if name in facts else ():
            if math.isfinite(value):
                known[f"{name.value}[{about}]" if about else name.value] = value
    return known


def about(known: dict[str, float], name: Fact) -> dict[str, float]:
    """Return what the facts of one name are about, and their values; "" is the fact as a whole.

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
    """Return the greatest momentum of any parameter group among the facts that were seen; 0 where none was told.

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
    """Return whether any of these classes of modules is a recurrent one."""
    return any(item.startswith(("LSTM", "GRU", "RNN")) for item in classes)
