"""Steps written out, and what a rule says of them: for tests of rules about tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.runs.reading.view import StepView

LOSS = Key(Kind.LOSS, "total")
RATE = Key(Kind.LEARNING_RATE, "group0")
Records = Mapping[Key, Summary | float]


def of_norm(norm: float, *, count: int = 100, zeros: int = 0, reach: float | None = None) -> Summary:
    """A tensor of that norm, spread evenly about zero."""
    most = norm if reach is None else reach
    return Summary(count=count, zeros=count if not norm else zeros, min=-most, max=most, sum=0.0, sum_sq=norm**2,
                   sum_abs=norm * count**0.5)


def tensors(kind: Kind, **norms: float | Summary) -> dict[Key, Summary | float]:
    """Tensors of one kind by path (`__` stands for a dot), of these norms."""
    return {Key(kind, path.replace("__", ".")): value if isinstance(value, Summary) else of_norm(value)
            for path, value in norms.items()}


def step(
    number: int, *parts: Records, layers: Mapping[Key, str] | None = None, dtypes: Mapping[Key, str] | str = "float32",
    skipped: bool = False, mode: Mode = Mode.TRAIN,
) -> StepView:
    """A step that recorded all of that."""
    records = {key: value for part in parts for key, value in part.items()}
    kinds = dict.fromkeys(records, dtypes) if isinstance(dtypes, str) else dtypes
    return StepView.of(Step(number, number, mode=mode, skipped=skipped), records, layers=layers, dtypes=kinds)


def said(rule: Rule, *views: StepView) -> list[list[Symptom | Unjudged]]:
    """What a rule says of each step, its memory through JSON and back in between."""
    memory: Memory = {}
    found = []
    for view in views:
        found.append(list(rule.judge(view, memory)))
        memory = json.loads(json.dumps(memory))
    return found


def subjects(rule: Rule, *views: StepView) -> list[list[str]]:
    """The subjects of the symptoms in each step."""
    return [[item.subject for item in found if isinstance(item, Symptom)] for found in said(rule, *views)]


def last(rule: Rule, *views: StepView) -> Symptom:
    """The one symptom of the last step."""
    (symptom,) = [item for item in said(rule, *views)[-1] if isinstance(item, Symptom)]
    return symptom


def causes(symptom: Symptom) -> dict[str, float]:
    """Cause to weight, strongest first."""
    return {str(item.cause): item.weight for item in symptom.causes}
