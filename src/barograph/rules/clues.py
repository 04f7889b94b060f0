"""Readers of the evidence for a cause in a step: facts, class counts, the size of updates.

They read; the rules judge.
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
"""With more classes some are always rare, and remembering all pairs would cost too much."""

_MANY_LABELS = 4.0
_MOST_RATIOS = 5
_SMALL_RATIO, _LARGE_RATIO = 1e-4, 0.05
_THROWING = 0.1
_LOW_RATE, _VERY_LOW_RATE = 5e-4, 1e-5


def fact_value(view: StepView, name: Fact, about: str | int = "") -> float | None:
    """Return one fact of a step; None if it was not recorded or is not finite.

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
    """Return the values of a fact by subject, without the value for the fact as a whole.

    Example:
        >>> from barograph.model.facts import fact
        >>> facts_about(StepView.of(0, {fact(Fact.PADDING, 0): 0.5}), Fact.PADDING)
        {'0': 0.5}
    """
    return {about: value for about, value in fact_values(view, name).items() if about and math.isfinite(value)}


@once_a_view
def counts_of(view: StepView) -> dict[str, dict[int, float]]:
    """Return how often each class was the target in this step, for each loss.

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
    """Return, for each loss, the target classes of this step as strings, with their counts.

    Example:
        >>> from barograph.model.key import Key
        >>> labels_of(StepView.of(0, {Key(Kind.LABEL, "cross_entropy[3]"): 5.0}))
        {'cross_entropy': [('3', 5.0)]}
    """
    return {loss: [(str(name), count) for name, count in counts.items() if count > 0]
            for loss, counts in counts_of(view).items()}


@once_a_view
def confusions_of(view: StepView) -> dict[str, dict[tuple[int, int], float]]:
    """Return the counts of (target, predicted class) in this step, for each loss.

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
    """Record the number of labels of a step; return whether samples have one each, as far as is known.

    Samples with many labels are texts, images or the like, in which any class frequency is usual.
    """
    samples = fact_value(view, Fact.BATCH_SIZE)
    if samples:
        memory["labels_each"] = labels / samples
    return bool(memory.get("labels_each", 1.0) < _MANY_LABELS)


def batch_reach(view: StepView) -> float:
    """Return the largest finite magnitude of the model's inputs, without token ids; 0 if not recorded.

    Example:
        >>> from barograph.model.key import Key
        >>> from barograph.model.summary import Summary
        >>> batch_reach(StepView.of(0, {Key(Kind.BATCH, "model[0]"): Summary(count=2, min=-3.0, max=2.0)}))
        3.0
    """
    if Kind.BATCH not in view.kinds:
        return 0.0
    batch = table_of(view, Kind.BATCH)
    return float(max((value for value, dtype in zip(batch.max_abs.tolist(), batch.dtypes.tolist(), strict=True)
                      if math.isfinite(value) and not dtype.startswith("int")), default=0.0))


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
    """Remember the size of the last recorded updates relative to the weights, and the learning rate."""
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
    """Remember the update that was largest relative to the weights that it changed."""
    ratio = _pace_of(view).ratio
    if ratio > memory.get("largest_step", [0.0])[0]:
        memory["largest_step"] = [ratio, view.step.number]


def large_step_in(memory: Mapping[str, Any]) -> str | None:
    """Return a clause about the largest update that `note_largest_step` remembered, if it is unusually large.

    Example:
        >>> large_step_in({"largest_step": [0.75, 0]})
        'step 0 changed the weights by 0.75 of their norm'
    """
    ratio, step = memory.get("largest_step", [0.0, -1])
    return f"step {step} changed the weights by {number(ratio)} of their norm" if ratio > _THROWING else None


class _Pace(NamedTuple):
    """The size of an update.

    Attributes:
        rate: Learning rate; None if not recorded.
        frozen: Share of the parameters that are frozen; None if not recorded.
        ratio: Norm of the update divided by that of the weights; NaN if not recorded.
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
    """Return the norm of the update divided by that of the weights that it changed; NaN if there is none."""
    updates, weights = table_of(view, Kind.UPDATE), table_of(view, Kind.WEIGHT)
    norm, step = weights.norm, updates.norm
    if weights.paths != updates.paths:
        changed = frozenset(updates.paths)
        squares = weights.column("sum_sq")[[path in changed for path in weights.paths]]
        norm = math.sqrt(float(squares.sum()))
    return step / norm if norm > 0 and math.isfinite(step) else math.nan


def pace_suspicions(memory: Mapping[str, Any]) -> list[Suspicion]:
    """Return the suspicions about the learning rate of a loss that does not fall, from what `note_pace` remembered."""
    rate: float | None = memory.get("rate")
    ratios = memory.get("ratios")
    if not ratios:
        if rate is None or rate > _LOW_RATE:
            return [Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.15, "a usual suspect")]
        weight = 0.4 if rate <= _VERY_LOW_RATE else 0.2
        return [Suspicion(Cause.LEARNING_RATE_TOO_LOW, weight, f"the learning rate is {number(rate)}",
                          f"{sentence(raise_rate(rate, 100))}.")]
    ratio = median(ratios)
    size = f"updates are {number(ratio)} of the norm of the weights"
    if ratio > _LARGE_RATIO:
        return [Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.5, f"{size}; 0.001 is usual")]
    if ratio < _SMALL_RATIO and (rate is None or rate <= _LOW_RATE):
        factor = 10.0 ** max(1, round(math.log10(1e-3 / max(ratio, 1e-12))))
        return [Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.5, f"{size}; 0.001 is usual",
                          f"{sentence(raise_rate(rate, factor))}.")]
    if ratio < _SMALL_RATIO:
        # The learning rate is usual, so the gradient is small.
        return [Suspicion(Cause.VANISHING_GRADIENT, 0.25, f"{size}, at a learning rate of {number(rate or 0.0)}"),
                Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.15, size)]
    return [Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.05, size)]


def goes_at_a_usual_pace(memory: Mapping[str, Any]) -> bool:
    """Return whether the updates that `note_pace` remembered are known to have a usual size."""
    ratios: list[float] = memory.get("ratios", [])
    return bool(ratios) and _SMALL_RATIO <= median(ratios) <= _LARGE_RATIO


@functools.lru_cache(maxsize=65536)
def _classes_in(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the loss and the classes of a path such as `cross_entropy[3,5]`; no classes if it has another form."""
    loss, _, rest = path.rpartition("[")
    try:
        return loss, tuple(int(item) for item in rest.removesuffix("]").split(","))
    except ValueError:
        return loss, ()
