"""What a step says beside its loss that speaks for one cause or another: facts, counts of classes, how far it went.

Here stands how to read it. What it means for a fault is the rules' to say.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.key import Kind
from barograph.rules.columns import learning_rate, table_of
from barograph.rules.facts import all_facts, fact_values
from barograph.rules.once import once_a_view
from barograph.rules.words import number, raise_rate, sentence
from barograph.runs.reading.view import StepView

MOST_CLASSES = 200
"""With more classes than this some are always rare, and to remember all pairs would cost too much."""

_MANY_LABELS = 4.0
_MOST_RATIOS = 5
_SMALL_RATIO, _LARGE_RATIO = 1e-4, 0.05
_THROWING = 0.1
_LOW_RATE, _VERY_LOW_RATE = 5e-4, 1e-5


def fact_value(view: StepView, name: Fact, about: str | int = "") -> float | None:
    """Return one fact of a step; None where it was not looked for, or is no finite number.

    Example:
        >>> from barograph.model.facts import fact
        >>> fact_value(StepView.of(0, {fact(Fact.FULL_BATCH): 1.0}), Fact.FULL_BATCH)
        1.0
    """
    known = all_facts(view).get(name)
    if known is None:
        return None
    value = known.get(str(about) if about != "" else "")
    return value if value is not None and math.isfinite(value) else None


def facts_about(view: StepView, name: Fact) -> dict[str, float]:
    """Return what a fact is about, to its value; the fact as a whole is not among it.

    Example:
        >>> from barograph.model.facts import fact
        >>> facts_about(StepView.of(0, {fact(Fact.PADDING, 0): 0.5}), Fact.PADDING)
        {'0': 0.5}
    """
    return {about: value for about, value in fact_values(view, name).items() if about and math.isfinite(value)}


@once_a_view
def counts_of(view: StepView) -> dict[str, dict[int, float]]:
    """Return how often each class was the truth in this step, for each loss.

    Example:
        >>> from barograph.model.key import Key
        >>> counts_of(StepView.of(0, {Key(Kind.LABEL, "cross_entropy[3]"): 5.0}))
        {'cross_entropy': {3: 5.0}}
    """
    found: dict[str, dict[int, float]] = {}
    for key, value in view.numbers(Kind.LABEL):
        loss, classes = _classes_in(key.path)
        if len(classes) == 1 and math.isfinite(value):
            found.setdefault(loss, {})[classes[0]] = value
    return found


@once_a_view
def labels_of(view: StepView) -> dict[str, list[tuple[str, float]]]:
    """Return, for each loss, the classes that were the truth in this step, as texts, and how often each was.

    Example:
        >>> from barograph.model.key import Key
        >>> labels_of(StepView.of(0, {Key(Kind.LABEL, "cross_entropy[3]"): 5.0}))
        {'cross_entropy': [('3', 5.0)]}
    """
    return {loss: [(str(name), count) for name, count in counts.items() if count > 0]
            for loss, counts in counts_of(view).items()}


@once_a_view
def confusions_of(view: StepView) -> dict[str, dict[tuple[int, int], float]]:
    """Return how often a class was the truth and another the answer in this step, for each loss.

    Example:
        >>> from barograph.model.key import Key
        >>> confusions_of(StepView.of(0, {Key(Kind.CONFUSION, "cross_entropy[3,5]"): 2.0}))
        {'cross_entropy': {(3, 5): 2.0}}
    """
    found: dict[str, dict[tuple[int, int], float]] = {}
    for key, value in view.numbers(Kind.CONFUSION):
        loss, classes = _classes_in(key.path)
        if len(classes) == 2 and math.isfinite(value):
            found.setdefault(loss, {})[classes[0], classes[1]] = value
    return found


def labels_stand_alone(view: StepView, memory: dict[str, Any], labels: float) -> bool:
    """Take in how many labels a step had; return whether they are one for each sample, as far as is known.

    Many for each sample are words, pixels or the like, whose classes come in any frequency.
    """
    samples = fact_value(view, Fact.BATCH_SIZE)
    if samples:
        memory["labels_each"] = labels / samples
    return bool(memory.get("labels_each", 1.0) < _MANY_LABELS)


def batch_reach(view: StepView) -> float:
    """Return the largest finite magnitude in what the model was fed; 0 where that was not recorded.

    Example:
        >>> from barograph.model.key import Key
        >>> from barograph.model.summary import Summary
        >>> batch_reach(StepView.of(0, {Key(Kind.BATCH, "model[0]"): Summary(count=2, min=-3.0, max=2.0)}))
        3.0
    """
    if Kind.BATCH not in view.kinds:
        return 0.0
    return float(max((value for value in table_of(view, Kind.BATCH).max_abs.tolist() if math.isfinite(value)),
                     default=0.0))


def by_weight(suspicions: Iterable[Suspicion]) -> tuple[Suspicion, ...]:
    """Return the suspicions, strongest first, each cause once.

    Example:
        >>> [item.weight for item in by_weight([Suspicion("a", 0.1), Suspicion("b", 0.5), Suspicion("a", 0.9)])]
        [0.9, 0.5]
    """
    strongest: dict[str, Suspicion] = {}
    for item in sorted(suspicions, key=lambda item: -item.weight):
        strongest.setdefault(item.cause, item)
    return tuple(strongest.values())


def note_pace(view: StepView, memory: dict[str, Any]) -> None:
    """Remember how far the optimizer's last recorded steps went beside the weights, and at which learning rate."""
    pace = _pace_of(view)
    if pace.rate is not None:
        memory["rate"] = pace.rate
    if pace.frozen is not None:
        memory["frozen"] = pace.frozen
    if math.isfinite(pace.ratio):
        ratios: list[float] = memory.setdefault("ratios", [])
        ratios.append(pace.ratio)
        del ratios[:-_MOST_RATIOS]


def note_largest_step(view: StepView, memory: dict[str, Any]) -> None:
    """Remember the step of the optimizer that went farthest beside the weights that it changed."""
    ratio = _pace_of(view).ratio
    if ratio > memory.get("largest_step", [0.0])[0]:
        memory["largest_step"] = [ratio, view.step.number]


def large_step_in(memory: Mapping[str, Any]) -> str | None:
    """Return what `note_largest_step` remembered of a step that is larger than those that training begins with.

    Example:
        >>> large_step_in({"largest_step": [0.75, 0]})
        'step 0 changed the weights by 0.75 of their norm'
    """
    ratio, step = memory.get("largest_step", [0.0, -1])
    return f"step {step} changed the weights by {number(ratio)} of their norm" if ratio > _THROWING else None


class _Pace(NamedTuple):
    """How far the optimizer goes in a step.

    Attributes:
        rate: Learning rate; None where it was not recorded.
        frozen: Share of the parameters that are frozen; None where it was not recorded.
        ratio: Of the step to the weights; NaN where it was not recorded.
    """

    rate: float | None
    frozen: float | None
    ratio: float


@once_a_view
def _pace_of(view: StepView) -> _Pace:
    frozen, parameters = fact_value(view, Fact.FROZEN), fact_value(view, Fact.PARAMETERS)
    goes = Kind.UPDATE in view.kinds and Kind.WEIGHT in view.kinds and not view.step.skipped
    return _Pace(learning_rate(view), frozen / parameters if frozen is not None and parameters else None,
                 _update_ratio(view) if goes else math.nan)


def _update_ratio(view: StepView) -> float:
    """Return the norm of the step beside that of the weights that it changed; NaN where there is none."""
    updates, weights = table_of(view, Kind.UPDATE), table_of(view, Kind.WEIGHT)
    norm, step = weights.norm, updates.norm
    if weights.paths != updates.paths:
        changed = frozenset(updates.paths)
        squares = weights.column("sum_sq")[[path in changed for path in weights.paths]]
        norm = math.sqrt(float(squares.sum()))
    return step / norm if norm > 0 and math.isfinite(step) else math.nan


def pace_suspicions(memory: Mapping[str, Any]) -> list[Suspicion]:
    """Return what `note_pace` remembered says of the learning rate, where the loss does not fall as it should."""
    rate: float | None = memory.get("rate")
    ratios = memory.get("ratios")
    if not ratios:
        if rate is None or rate > _LOW_RATE:
            return [Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.15, "a usual suspect")]
        weight = 0.4 if rate <= _VERY_LOW_RATE else 0.2
        return [Suspicion(Cause.LEARNING_RATE_TOO_LOW, weight, f"the learning rate is {number(rate)}",
                          f"{sentence(raise_rate(rate, 100))}.")]
    ratio = median(ratios)
    size = f"the optimizer's steps are {number(ratio)} of the weights' norm"
    if ratio > _LARGE_RATIO:
        return [Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.5, f"{size}; 0.001 is usual")]
    if ratio < _SMALL_RATIO and (rate is None or rate <= _LOW_RATE):
        factor = 10.0 ** max(1, round(math.log10(1e-3 / max(ratio, 1e-12))))
        return [Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.5, f"{size}; 0.001 is usual",
                          f"{sentence(raise_rate(rate, factor))}.")]
    if ratio < _SMALL_RATIO:
        # The rate is a usual one, so it is the gradient that is small.
        return [Suspicion(Cause.VANISHING_GRADIENT, 0.25, f"{size}, at a learning rate of {number(rate or 0.0)}"),
                Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.15, size)]
    return [Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.05, size)]


def goes_at_a_usual_pace(memory: Mapping[str, Any]) -> bool:
    """Return whether the steps that `note_pace` remembered are known to be neither too small nor too large."""
    ratios: list[float] = memory.get("ratios", [])
    return bool(ratios) and _SMALL_RATIO <= median(ratios) <= _LARGE_RATIO


@functools.lru_cache(maxsize=65536)
def _classes_in(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the loss and the classes of `cross_entropy[3,5]`; no classes where it is not written so."""
    loss, _, rest = path.rpartition("[")
    try:
        return loss, tuple(int(item) for item in rest.removesuffix("]").split(","))
    except ValueError:
        return loss, ()
