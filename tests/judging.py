"""What tests of rules share: views from a few words, and what a rule says of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from barograph.model.facts import Fact, fact
from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.runs.reading.view import StepView

TOTAL = Key(Kind.LOSS, "total")
CROSS_ENTROPY = Key(Kind.LOSS, "cross_entropy")
SQUARES = Key(Kind.LOSS, "mse_loss")
RATE = Key(Kind.LEARNING_RATE, "group0")


def said(rule: Rule, views: Iterable[StepView], memory: Memory | None = None) -> list[list[Symptom | Unjudged]]:
    """Return what the rule says of each step; its memory passes through JSON between any two."""
    memory = {} if memory is None else memory
    found = []
    for view in views:
        found.append(list(rule.judge(view, memory)))
        plain = json.loads(json.dumps(memory, allow_nan=False))
        memory.clear()
        memory.update(plain)
    return found


def symptoms(rule: Rule, views: Sequence[StepView]) -> list[Symptom]:
    """Return all symptoms, in order."""
    return [item for items in said(rule, views) for item in items if isinstance(item, Symptom)]


def steps_of(rule: Rule, views: Sequence[StepView]) -> list[int]:
    """Return the steps in which the rule names a symptom."""
    return [view.step.number for view, items in zip(views, said(rule, views), strict=True)
            if any(isinstance(item, Symptom) for item in items)]


def causes(symptom: Symptom) -> list[str]:
    """Return the causes of a symptom by name, strongest first."""
    assert [item.weight for item in symptom.causes] == sorted((item.weight for item in symptom.causes), reverse=True)
    return [str(item.cause) for item in symptom.causes]


def facts(values: Mapping[Fact | tuple[Fact, str], float]) -> dict[Key, float]:
    """Return records of facts; a pair names what a fact is about."""
    return {fact(*name) if isinstance(name, tuple) else fact(name): value for name, value in values.items()}


def labels(counts: Mapping[int, float], loss: str = "cross_entropy") -> dict[Key, float]:
    """Return records of how often each class was the truth."""
    return {Key(Kind.LABEL, f"{loss}[{name}]"): float(count) for name, count in counts.items()}


def confusion(pairs: Mapping[tuple[int, int], float], loss: str = "cross_entropy") -> dict[Key, float]:
    """Return records of how often a class was the truth and another the answer."""
    return {Key(Kind.CONFUSION, f"{loss}[{truth},{answer}]"): float(count) for (truth, answer), count in pairs.items()}


def evaluated(number: int, records: Mapping[Key, Summary | float], *, tick: int | None = None) -> StepView:
    """Return the evaluation after so many steps."""
    return StepView.of(Step(number if tick is None else tick, number, "", Mode.EVAL), dict(records))
