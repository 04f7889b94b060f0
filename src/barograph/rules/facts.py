"""The facts of a step by name, cached because rules look them up often."""

from __future__ import annotations

from barograph.model.facts import Fact
from barograph.model.key import Kind
from barograph.rules.once import once_a_view
from barograph.runs.reading.view import StepView


@once_a_view
def all_facts(view: StepView) -> dict[str, dict[str, float]]:
    """Return the facts of a step: name to subject to value; the subject "" is the fact as a whole.

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
    """Return the values of a fact by subject in one step; empty if it was not recorded."""
    return all_facts(view).get(name) or {}
