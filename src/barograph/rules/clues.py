"""What a step says beside its loss that speaks for one cause or another: facts, counts of classes, how far it went.

Here stands how to read it. What it means for a fault is the rules' to say.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.key import Kind
from barograph.rules.columns import learning_rate, once_a_view, table_of
from barograph.rules.words import number, raise_rate, sentence
from barograph.runs.view import StepView

MOST_CLASSES = 200
"""With more classes than this some are always rare, and to remember all pairs would cost too much."""

_MANY_LABELS = 4.0
_MOST_RATIOS = 5
_SMALL_RATIO, _LARGE_RATIO = 1e-4, 0.05
_LOW_RATE, _VERY_LOW_RATE = 5e-4, 1e-5


def fact_value(view: StepView, name: Fact, about: str | int = "") -> float | None:
    """Return one fact of a step; None where it was not looked for, or is no finite number.

    Example:
        >>> fact_value(StepView.of(0, {fact(Fact.FULL_BATCH): 1.0}), Fact.FULL_BATCH)
        1.0
    """
    value = view.scalar(fact(name, about))
    return value if value is not None and math.isfinite(value) else None


def facts_about(view: StepView, name: Fact) -> dict[str, float]:
    """Return what a fact is about, to its value; the fact as a whole is not among it.

    Example:
        >>> facts_about(StepView.of(0, {fact(Fact.PADDING, 0): 0.5}), Fact.PADDING)
        {'0': 0.5}
    """
    found = {}
    for key, value in view.scalars(Kind.FACT).items():
        head, about = _split(key.path)
        if about and head == name.value and math.isfinite(value):
            found[about] = value
    return found


@once_a_view
def counts_of(view: StepView) -> dict[str, dict[int, float]]:
    """Return how often each class was the truth in this step, for each loss.

    Example:
        >>> from barograph.model.key import Key
        >>> counts_of(StepView.of(0, {Key(Kind.LABEL, "cross_entropy[3]"): 5.0}))
        {'cross_entropy': {3: 5.0}}
    """
    found: dict[str, dict[int, float]] = {}
    for key, value in view.scalars(Kind.LABEL).items():
        loss, classes = _classes_in(key.path)
        if len(classes) == 1 and math.isfinite(value):
            found.setdefault(loss, {})[classes[0]] = value
    return found


@once_a_view
def confusions_of(view: StepView) -> dict[str, dict[tuple[int, int], float]]:
    """Return how often a class was the truth and another the answer in this step, for each loss.

    Example:
        >>> from barograph.model.key import Key
        >>> confusions_of(StepView.of(0, {Key(Kind.CONFUSION, "cross_entropy[3,5]"): 2.0}))
        {'cross_entropy': {(3, 5): 2.0}}
    """
    found: dict[str, dict[tuple[int, int], float]] = {}
    for key, value in view.scalars(Kind.CONFUSION).items():
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
    rate = learning_rate(view)
    if rate is not None:
        memory["rate"] = rate
    frozen, parameters = fact_value(view, Fact.FROZEN), fact_value(view, Fact.PARAMETERS)
    if frozen is not None and parameters:
        memory["frozen"] = frozen / parameters
    if Kind.UPDATE not in view.kinds or Kind.WEIGHT not in view.kinds or view.step.skipped:
        return
    ratio = _update_ratio(view)
    if math.isfinite(ratio):
        ratios: list[float] = memory.setdefault("ratios", [])
        ratios.append(ratio)
        del ratios[:-_MOST_RATIOS]


@once_a_view
def _update_ratio(view: StepView) -> float:
    """Return the norm of the step beside that of the weights that it changed; NaN where there is none."""
    updates, weights = table_of(view, Kind.UPDATE), table_of(view, Kind.WEIGHT)
    squares = weights.column("sum_sq")
    if weights.paths != updates.paths:
        changed = frozenset(updates.paths)
        squares = squares[[path in changed for path in weights.paths]]
    norm, step = math.sqrt(float(squares.sum())), math.sqrt(float(updates.column("sum_sq").sum()))
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
def _split(path: str) -> tuple[str, str]:
    head, _, about = path.partition("[")
    return head, about.removesuffix("]")


@functools.lru_cache(maxsize=65536)
def _classes_in(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the loss and the classes of `cross_entropy[3,5]`; no classes where it is not written so."""
    loss, _, rest = path.rpartition("[")
    try:
        return loss, tuple(int(item) for item in rest.removesuffix("]").split(","))
    except ValueError:
        return loss, ()
