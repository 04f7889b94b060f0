"""The rule about how far one optimizer step goes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind, key_from_text
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import LayerTable, Table, layers_of, learning_rate, stated_loss, table_of
from barograph.rules.words import lower_rate, number, raise_rate, sentence
from barograph.runs.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_USUAL, _USUAL_AT_FIRST = 1e-3, 3e-2
_CONVERGED, _DECAYED = 0.1, 0.01
_HELPED = 0.01
"""A step after which the loss is lower by this share was no mistake, however large."""


@dataclass(frozen=True, kw_only=True)
class WeightUpdateRatio(Rule):
    """W101: The optimizer's steps are far too large, or far too small, for the weights they change.

    What it sees: the norm of one optimizer step (weight after minus weight before) beside the norm of the
      weights, over all that the optimizer changes: ‖w_s − w_prev‖ / (‖w_prev‖ + `epsilon`). Near 1e-3 is usual,
      1e-2 at the start. A step above `large_threshold` is too large, unless the next recorded loss is at least 1 %
      lower. Steps below `small_threshold`, `small_steps` judged ones in a row, are too small, as long as the
      gradient has not fallen to a tenth of what it was at first (then training has converged) and the learning
      rate not to a hundredth of its peak (then it is meant).
    Why it matters: a step as large as the weights throws away what they were, initialisation included, and often
      kills units for good. Steps that are too small pay for a training that does not happen.
    What to do: change the learning rate by the factor the finding says; warm it up; clip gradients.
    When it is wrong: models whose weights start at zero (the first step is then as large as the weights by
      definition); long warm-ups from 0, if `small_steps` judged steps lie within their first thousandth.
    Tried on: silent on all 145 healthy trainings, whose ratios lie between 9e-2 (first steps) and 7e-5 (end of a
      cosine). Learning rates of 0.1 and 1 (Adam) and 20 (SGD) fire within the first six steps, 1e-6 (SGD) and 1e-8
      (Adam) after ten judged steps.
    Source: Stanford CS231n notes, "Neural Networks Part 3", section "Ratio of weights:updates"; Amazon SageMaker
      Debugger's WeightUpdateRatio, whose defaults are 10 and 1e-8 across many steps.
    """

    code: ClassVar[str] = "W101"
    name: ClassVar[str] = "weight-update-ratio"
    severity: ClassVar[Severity] = Severity.COSTLY

    large_threshold: float = parameter(0.5, "Ratio above which a step is too large.", above=0.0)
    small_threshold: float = parameter(1e-6, "Ratio below which a step is too small.", at_least=0.0)
    epsilon: float = parameter(1e-9, "Added to the norm of the weights, against division by zero.", above=0.0)
    small_steps: int = parameter(10, "Judged steps in a row that must be too small.", at_least=1)
    recovery: int = parameter(20, "Judged steps in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # The first steps one by one: that is when a learning rate is found to be too high.
        schedule = Schedule(every=10, steps=frozenset(range(5)), modes=_IN_TRAINING)
        tensors = (Kind.UPDATE, Kind.WEIGHT, Kind.GRADIENT)
        return (
            *(Selection(kinds=frozenset({kind}), schedule=schedule) for kind in tensors),
            Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=_IN_TRAINING)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is not Mode.TRAIN:
            yield Unjudged("only evaluations were recorded")
            return
        yield from self._settled(view, memory)
        measured = self._measured(view, memory)
        if measured is None:
            yield Unjudged("no step was recorded with finite updates and weights")
            return
        ratio, rate, worst = measured
        if ratio > self.large_threshold:
            found = stated_loss(view)
            memory["large"] = {"step": view.step.number, "ratio": ratio, "rate": rate, "loss": found and found[1],
                               "worst": [[str(key), value] for value, key in reversed(worst[-3:])]}
            if found is None:
                yield from self._settled(view, memory)
            else:
                yield Unjudged("a step was very large, and the loss after it is not known yet")
        elif memory["small"] >= self.small_steps:
            yield self._small(view, memory, ratio, rate, worst[:3])
        elif memory["small"]:
            yield Unjudged(f"steps are small, {memory['small']} judged so far; it waits for {self.small_steps}")

    def _measured(
        self, view: StepView, memory: Memory
    ) -> tuple[float, float | None, list[tuple[float, Key]]] | None:
        """Return the ratio of the step, the learning rate, and the ratio of each layer, rising."""
        rate = learning_rate(view)
        memory["peak_rate"] = max(rate or 0.0, memory.get("peak_rate", 0.0))
        updates, weights = layers_of(table_of(view, Kind.UPDATE)), layers_of(table_of(view, Kind.WEIGHT))
        now = dict(zip(weights.paths, weights.column("sum_sq").tolist(), strict=True))
        before = memory.get("before")
        if now:
            memory["before"] = [view.step.number, now]
        if view.step.skipped or not len(updates) or not (updates.whole.all() and weights.whole.all()):
            return None
        # Of what the optimizer changes, and before it did where that was recorded.
        squares = before[1] if before is not None and before[0] == view.step.number - 1 else now
        ratio = _norm(updates) / (math.sqrt(sum(squares.get(path, 0.0) for path in updates.paths)) + self.epsilon)
        worst = sorted(
            (change / (math.sqrt(squares.get(path, 0.0)) + self.epsilon), key)
            for path, change, key in zip(updates.paths, updates.l2.tolist(), updates.keys, strict=True)
        )
        self._count_small(view, memory, ratio, rate or 0.0)
        return ratio, rate, worst

    def _count_small(self, view: StepView, memory: Memory, ratio: float, rate: float) -> None:
        gradient = _norm(table_of(view, Kind.GRADIENT))
        first = memory.setdefault("first_gradient", gradient or None) or gradient
        learns = gradient > 0 and gradient >= _CONVERGED * first and rate >= _DECAYED * memory["peak_rate"]
        memory["small"] = memory.get("small", 0) + 1 if ratio < self.small_threshold and learns else 0
        if memory["small"] == 1:
            memory["small_since"] = view.step.number

    def _settled(self, view: StepView, memory: Memory) -> Iterable[Symptom]:
        """Yield the large step that is remembered, if the loss of this step does not speak for it."""
        large = memory.get("large")
        found = stated_loss(view)
        if large is None or (large["loss"] is not None and found is None):
            return
        memory["large"] = None
        if large["loss"] is not None and found is not None and found[1] < large["loss"] - _HELPED * abs(large["loss"]):
            return
        loss = "" if found is None or large["loss"] is None else (
            f", and the loss went from {number(large['loss'])} to {number(found[1])}"
            + (f" by step {view.step.number}" if view.step.number > large["step"] + 1 else ""))
        factor = _round_factor(large["ratio"] / _USUAL_AT_FIRST)
        yield Symptom(
            message=f"One optimizer step changed the weights by {number(large['ratio'])} times their norm{loss}; up to "
                    "0.1 is usual at first.",
            remedy=f"{sentence(lower_rate(large['rate'], factor))}, or warm it up over the first hundred steps.",
            evidence=self._evidence(large["step"], large["ratio"], self.large_threshold,
                                    [(value, key_from_text(text)) for text, value in large["worst"]]),
            subject="large", since=large["step"],
        )

    def _small(
        self, view: StepView, memory: Memory, ratio: float, rate: float | None, worst: list[tuple[float, Key]]
    ) -> Symptom:
        factor = _round_factor(_USUAL / max(ratio, 1e-12))
        return Symptom(
            message=f"The optimizer's steps are {number(ratio)} of the weights' norm, while gradients are as large as "
                    "at first: the model hardly changes; 0.001 is usual.",
            remedy=f"{sentence(raise_rate(rate, factor))}; see that no scheduler sets it to nearly nothing.",
            evidence=self._evidence(view.step.number, ratio, self.small_threshold, worst),
            subject="small", since=memory["small_since"],
        )

    @staticmethod
    def _evidence(step: int, ratio: float, limit: float, worst: list[tuple[float, Key]]) -> tuple[Evidence, ...]:
        return (
            Evidence(None, step, "update_ratio", ratio, limit, f"ratio {number(ratio)} over the whole model"),
            *(Evidence(key, step, "update_ratio", value, limit, f"ratio {number(value)}") for value, key in worst),
        )


def _norm(table: Table | LayerTable) -> float:
    return math.sqrt(float(table.column("sum_sq").sum()))


def _round_factor(factor: float) -> float:
    """Return the nearest of 3, 10, 30, 100 …: nobody wants advice in three figures.

    Example:
        >>> _round_factor(28.0), _round_factor(120.0)
        (30.0, 100.0)
    """
    half_decades = max(1, round(2 * float(np.log10(factor))))
    return float(f"{10 ** (half_decades / 2):.0e}")
