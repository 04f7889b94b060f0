"""The facts of a step by name: what rules look up, far more often than there is anything to find."""

from __future__ import annotations

from barograph.model.facts import Fact
from barograph.model.key import Kind
from barograph.rules.once import once_a_view
from barograph.runs.reading.view import StepView


@once_a_view
def all_facts(view: StepView) -> dict[str, dict[str, float]]:
    """Return the facts of a step: name to what each is about, to its value; "" is the fact as a whole.

    Example:
        >>> from barograph.model.facts import fact
        >>> all_facts(StepView.of(0, {fact(Fact.FROZEN): 1.0, fact(Fact.FROZEN, "fc.bias"): 1.0}))
        {'frozen': {'': 1.0, 'fc.bias': 1.0}}
    """
    found: dict[str, dict[str, float]] = {}
    for key, value in view.numbers(Kind.FACT):
        name, _, about = key.path.partition("[")
        if name in found:
            found[name][about.removesuffix("]")] = value
        else:
            found[name] = {about.removesuffix("]"): value}
    return found


def fact_values(view: StepView, name: Fact) -> dict[str, float]:
    """Return what a fact is about, to its value, in one step; empty where it was not looked for."""
    return all_facts(view).get(name) or {}
