"""The rule about the size of optimizer updates relative to the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind, key_from_text
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.baseline import FAR_FROM_CHANCE, HALVED_SQUARES, SOFTMAX_LOSSES, SQUARES, plain_loss
from barograph.rules.columns import LayerTable, Table, learning_rate, stated_loss, table_of
from barograph.rules.odd_batches import follow_batches, odd_batch_behind
from barograph.rules.packing import packed, unpacked
from barograph.rules.suspects import FAR_LOSS, momentum_in, ranked, remember_facts
from barograph.rules.words import CLIPPING, lower_rate, number, raise_rate, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_USUAL, _USUAL_AT_FIRST = 1e-3, 3e-2
_CONVERGED, _DECAYED = 0.1, 0.01
_HELPED = 0.01
"""A step that lowers the loss by this share is accepted, however large."""


@dataclass(frozen=True, kw_only=True)
class WeightUpdateRatio(Rule):
    """W101: The optimizer's updates are far too large or far too small for the weights.

    What it sees: the norm of an update (weights after minus before) relative to the norm of the weights, over all
      weights that the optimizer changes: ‖w_s − w_prev‖ / (‖w_prev‖ + `epsilon`). About 1e-3 is normal, 1e-2 at the
      start. An update above `large_threshold` is too large, unless the next recorded loss is at least 1% lower. Updates
      below `small_threshold` in `small_steps` consecutive evaluated steps are too small, unless the gradient fell to a
      tenth of its initial norm (training has converged) or the learning rate to a hundredth of its peak (intended). If
      the loss has not fallen by 1% and the rate is not rising, updates below `slow_threshold` are reported as doubtful;
      if the loss is still above that of predicting all classes equally, updates below `idle_threshold`. If the batch of
      an update that is too large exceeded all previous batches ten times, the rule suspects a bad sample. An update
      that is too large is doubtful if the loss rises by less than a quarter, unless the update is twice as large as the
      weights, and not reported if all weights started at zero, since any update is large beside them.
    Why it matters: an update as large as the weights discards them, initialization included, and often kills units
      permanently. With updates that are too small, you pay for training that does not happen.
    What to do: change the learning rate by the factor in the finding; warm it up; clip gradients.
    When it is wrong: losses summed over a few samples instead of averaged, which may look worse than chance; long
      warm-ups from 0, if `small_steps` evaluated steps fall within their first thousandth.
    Tested on: silent on all 145 healthy trainings, with ratios between 9e-2 (first steps) and 7e-5 (end of a cosine
      schedule). Learning rates of 0.1 and 1 (Adam) and 20 (SGD) fire within the first six steps, 1e-6 (SGD) and 1e-8
      (Adam) after ten evaluated steps, 2e-5 (SGD with momentum, a network of two layers) at step 50 with five seeds.
    Source: Stanford CS231n notes, "Neural Networks Part 3", section "Ratio of weights:updates"; Amazon SageMaker
      Debugger's WeightUpdateRatio, whose defaults are 10 and 1e-8 across many steps.
    """

    code: ClassVar[str] = "W101"
    name: ClassVar[str] = "weight-update-ratio"
    severity: ClassVar[Severity] = Severity.COSTLY

    large_threshold: float = parameter(0.5, "Ratio above which a step is too large.", above=0.0)
    small_threshold: float = parameter(1e-6, "Ratio below which a step is too small.", at_least=0.0)
    slow_threshold: float = parameter(
        3e-5, "Ratio below which a step is too small if the loss does not fall.", at_least=0.0,
    )
    idle_threshold: float = parameter(
        1e-4, "Ratio below which a step is too small if the loss is above ln C, with C classes.",
        at_least=0.0,
    )
    epsilon: float = parameter(1e-9, "Added to the norm of the weights to avoid division by zero.", above=0.0)
    small_steps: int = parameter(10, "Consecutive evaluated steps that must be too small.", at_least=1)
    recovery: int = parameter(20, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Every one of the first steps: a learning rate that is too high shows there.
        schedule = Schedule(every=10, steps=frozenset(range(5)), modes=_IN_TRAINING)
        tensors = (Kind.UPDATE, Kind.WEIGHT, Kind.GRADIENT)
        return (
            *(Selection(kinds=frozenset({kind}), schedule=schedule) for kind in tensors),
            Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=_IN_TRAINING)),
            # With the loss: runs without momentum, classes or targets still meet this need.
            Selection(kinds=frozenset({Kind.LOSS, Kind.FACT, Kind.TARGET}), schedule=schedule,
                      include=("total", f"{Fact.MOMENTUM}*", f"{Fact.CLASSES.value}*",
                               *sorted(SQUARES | HALVED_SQUARES))),
        )

    @property
    def _limits(self) -> dict[str, float]:
        """Below which ratio steps are counted, by what the count is called."""
        return {"small": self.small_threshold, "slow": self.slow_threshold, "idle": self.idle_threshold}

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is not Mode.TRAIN:
            yield Unjudged("only evaluations were recorded")
            return
        remember_facts(view, memory, Fact.MOMENTUM, Fact.CLASSES)
        follow_batches(view, memory)
        _take_in_loss(view, memory)
        yield from self._settled(view, memory)
        measured = self._measured(view, memory)
        if measured is None:
            yield Unjudged("no step recorded finite updates and weights")
            return
        ratio, rate, layers = measured
        found = stated_loss(view)
        if found is None and not len(table_of(view, Kind.GRADIENT)):
            # scikit-learn's SGD, for example: `fit` and `partial_fit` run many steps each.
            yield Unjudged("updates were recorded without gradients and loss, so each may cover many steps")
            return
        if ratio > self.large_threshold:
            memory["large"] = {"step": view.step.number, "ratio": ratio, "rate": rate, "loss": found and found[1],
                               "far": found is not None and _starts_far(view, found[1]),
                               "worst": [[str(key), value] for value, key in reversed(layers.sorted()[-3:])]}
            if found is None:
                yield from self._settled(view, memory)
            else:
                yield Unjudged("an update was very large; waiting for the next loss")
        elif memory["small"] >= self.small_steps:
            yield self._small(view, memory, ratio, rate, layers.sorted()[:3])
        elif memory["slow"] >= self.small_steps and _stands(memory):
            yield self._small(view, memory, ratio, rate, layers.sorted()[:3], "slow", ", and the loss has not fallen")
        elif memory["idle"] >= self.small_steps and (chance := _chance_below(memory)):
            yield self._small(view, memory, ratio, rate, layers.sorted()[:3], "idle",
                              f", and the loss is above {number(chance)}, that of guessing")
        elif memory["small"]:
            yield Unjudged(f"needs {self.small_steps} small updates in a row; this run has {memory['small']}")

    def _measured(self, view: StepView, memory: Memory) -> tuple[float, float | None, Ratios] | None:
        """Return the ratio of the step, the learning rate, and the ratio of each layer."""
        rate = learning_rate(view)
        memory["peak_rate"] = max(rate or 0.0, memory.get("peak_rate", 0.0))
        updates, weights = table_of(view, Kind.UPDATE), table_of(view, Kind.WEIGHT)
        before = _before(view, weights, memory)
        if view.step.skipped or not len(updates) or not (updates.is_whole and weights.is_whole):
            return None
        # The weights that the optimizer changes, before the update if recorded.
        squares = before if before is not None else _squares_of(updates.layers, weights.layers)
        # The first update of weights that begin at 0 equals them. Beside such weights, every update is large.
        memory.setdefault("from_zero", not before.any() if before is not None else
                          bool(np.allclose(updates.layers.l2, np.sqrt(squares), rtol=1e-12, atol=0.0)))
        layers = Ratios(updates.layers, squares, self.epsilon)
        ratio = updates.norm / (math.sqrt(float(squares.sum())) + self.epsilon)
        self._count_small(view, memory, ratio, rate or 0.0)
        return ratio, rate, layers

    def _count_small(self, view: StepView, memory: Memory, ratio: float, rate: float) -> None:
        gradient = table_of(view, Kind.GRADIENT).norm
        first = memory.setdefault("first_gradient", gradient or None) or gradient
        learns = gradient > 0 and gradient >= _CONVERGED * first and rate >= _DECAYED * memory["peak_rate"]
        rises = rate > memory.get("slow_rate", rate)
        for name, limit in self._limits.items():
            counts = ratio < limit and learns and not (rises and name != "small")
            memory[name] = memory.get(name, 0) + 1 if counts else 0
            if memory[name] == 1:
                memory[f"{name}_since"] = view.step.number
        memory["slow_rate"] = rate

    def _settled(self, view: StepView, memory: Memory) -> Iterable[Symptom]:
        """Yield the pending large update, unless the loss of this step justifies it."""
        large = memory.get("large")
        found = stated_loss(view)
        if large is None or (large["loss"] is not None and found is None):
            return
        memory["large"] = None
        if large["loss"] is not None and not math.isfinite(large["loss"]):
            return  # the loss was non-finite before this update
        if large["loss"] is not None and found is not None and found[1] < large["loss"] - _HELPED * abs(large["loss"]):
            return
        harmless = _did_little_harm(large, found and found[1])
        if harmless and memory.get("from_zero"):
            return
        loss = "" if found is None or large["loss"] is None else (
            f", and the loss changed from {number(large['loss'])} to {number(found[1])}"
            + (f" by step {view.step.number}" if view.step.number > large["step"] + 1 else ""))
        factor = _round_factor(large["ratio"] / _USUAL_AT_FIRST)
        odd = odd_batch_behind(memory, large["step"])
        yield Symptom(
            message=f"One optimizer step changed the weights by {number(large['ratio'])} times their norm "
                    f"(normal: up to 0.1 at the start){loss}.",
            remedy=odd.remedy if odd is not None else
            f"{sentence(lower_rate(large['rate'], factor))}, or warm it up over the first 100 steps.",
            evidence=self._evidence(large["step"], large["ratio"], self.large_threshold,
                                    [(value, key_from_text(text)) for text, value in large["worst"]]),
            subject="large", since=large["step"], causes=_too_large(large, factor, memory, odd),
            severity=Severity.DOUBTFUL if harmless else None,
        )

    def _small(
        self, view: StepView, memory: Memory, ratio: float, rate: float | None, worst: list[tuple[float, Key]],
        name: str = "small", besides: str = "",
    ) -> Symptom:
        factor = _round_factor(_USUAL / max(ratio, 1e-12))
        return Symptom(
            message=f"Updates are {number(ratio)} of the weights' norm (normal: 0.001), while gradients are as large "
                    "as "
                    f"at the start{besides}: the model hardly changes.",
            remedy=f"{sentence(raise_rate(rate, factor))}; check that no scheduler decays it to nearly zero.",
            evidence=self._evidence(view.step.number, ratio, self._limits[name], worst), subject="small",
            since=memory[f"{name}_since"],
            severity=None if name == "small" else Severity.DOUBTFUL, causes=_too_small(ratio, rate, factor, memory),
        )

    @staticmethod
    def _evidence(step: int, ratio: float, limit: float, worst: list[tuple[float, Key]]) -> tuple[Evidence, ...]:
        return (
            Evidence(None, step, "update_ratio", ratio, limit, f"ratio {number(ratio)} over the whole model"),
            *(Evidence(key, step, "update_ratio", value, limit, f"ratio {number(value)}") for value, key in worst),
        )


@dataclass(frozen=True, slots=True)
class Ratios:
    """The ratio of update norm to weight norm of each layer.

    Attributes:
        updates: The updated layers.
        squares: Squared norms of their weights, in the same order.
        epsilon: Added to the norms.
    """

    updates: LayerTable
    squares: NDArray[np.float64]
    epsilon: float

    @property
    def values(self) -> NDArray[np.float64]:
        """One ratio per layer."""
        return np.asarray(self.updates.l2 / (np.sqrt(self.squares) + self.epsilon))

    def sorted(self) -> list[tuple[float, Key]]:
        """Return ratio and key of each layer, in ascending order."""
        return sorted(zip(self.values.tolist(), self.updates.keys, strict=True))


def _before(view: StepView, weights: Table, memory: Memory) -> NDArray[np.float64] | None:
    """Return the squared norms of the updated layers before this step, if recorded; remember the current ones."""
    kept, updates = memory.get("before"), table_of(view, Kind.UPDATE).layers
    if len(weights):
        paths = weights.layers.paths
        named = list(paths)
        # Share the names if unchanged: they are most of the memory.
        known = kept[1] if kept is not None and kept[1] == named else named
        memory["before"] = [view.step.number, known, packed(weights.layers.column("sum_sq"))]
    if kept is None or kept[0] != view.step.number - 1:
        return None
    squares = unpacked(kept[2], float)
    if len(kept[1]) == len(updates) and kept[1] == list(updates.paths):
        return squares
    at = dict(zip(kept[1], squares.tolist(), strict=True))
    return np.array([at.get(path, 0.0) for path in updates.paths])


def _take_in_loss(view: StepView, memory: Memory) -> None:
    found = stated_loss(view)
    if found is not None and math.isfinite(found[1]):
        first, last = memory.setdefault("first_losses", []), memory.setdefault("last_losses", [])
        first.extend([found[1]] * (len(first) < _LOSSES))
        last.append(found[1])
        del last[:-_LOSSES]
        memory["losses"] = memory.get("losses", 0) + 1
        plain = plain_loss(view)
        memory["of_classes"] = plain is not None and plain[0].path in SOFTMAX_LOSSES


def _stands(memory: Memory) -> bool:
    """Return whether the loss is within 1% of its start."""
    if memory.get("losses", 0) < 2 * _LOSSES:
        return False
    first = median(memory["first_losses"])
    return bool(first > 0 and median(memory["last_losses"]) > (1 - _HELPED) * first)


def _chance_below(memory: Memory) -> float | None:
    """Return the loss of predicting all classes equally if the last losses are above it; else None."""
    classes = memory["facts"].get(Fact.CLASSES.value, 0.0)
    if not memory.get("of_classes") or classes < 2 or memory.get("losses", 0) < _LOSSES:
        return None
    chance, first, last = math.log(classes), median(memory["first_losses"]), median(memory["last_losses"])
    # A loss that starts farther off is a sum over samples, or L107 reports it.
    return chance if last > chance and first <= FAR_FROM_CHANCE * chance else None


def _starts_far(view: StepView, loss: float) -> bool:
    """Return whether a first loss is far above that of outputs near zero, which targets far from zero make large."""
    if loss <= FAR_LOSS or Kind.TARGET not in view.kinds:
        return loss > FAR_LOSS
    squares = [targets.rms ** 2 for subject, targets in view.summaries(Kind.TARGET)
               if subject.key.path in SQUARES | HALVED_SQUARES and targets.count and not targets.nonfinite]
    return not squares or loss > FAR_FROM_CHANCE * max(squares)


def _did_little_harm(large: dict[str, Any], loss: float | None) -> bool:
    """Return whether the loss rose no more than noise may, and the update was not extreme."""
    before = large["loss"]
    if before is None or loss is None or not math.isfinite(loss):
        return False
    return bool(loss < before + _A_LITTLE * abs(before) and large["ratio"] < _LARGER_STILL)


_LOSSES, _A_LITTLE, _LARGER_STILL = 10, 0.25, 2.0


def _squares_of(updates: LayerTable, weights: LayerTable) -> NDArray[np.float64]:
    if updates.paths == weights.paths:
        return weights.column("sum_sq")
    at = dict(zip(weights.paths, weights.column("sum_sq").tolist(), strict=True))
    return np.array([at.get(path, 0.0) for path in updates.paths])


def _too_large(large: dict[str, Any], factor: float, memory: Memory, odd: Suspicion | None) -> tuple[Suspicion, ...]:
    momentum = momentum_in(memory.get("facts", {}))
    rate = "" if large["rate"] is None else f" at a learning rate of {number(large['rate'])}"
    why = f"an update of {number(large['ratio'])} times the weights' norm{rate}"
    first = large["step"] < _FIRST_STEPS
    began = large["loss"] if first and large.get("far") else None
    return ranked(
        odd,
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.6 if began is None and odd is None else 0.3, why,
                  f"{sentence(lower_rate(large['rate'], factor))}."),
        None if began is None else
        Suspicion(Cause.INITIALIZATION_SCALE, 0.5, f"the loss was {number(began)} before that step: the model's "
                                                   "outputs "
                  "are far too large from the start",
                  "Initialize the weights for the width and the depth (in time) of the model."),
        Suspicion(Cause.MOMENTUM_WRONG, 0.5, f"{why}, with a momentum of {number(momentum)}",
                  "Lower the momentum to 0.9.") if momentum >= _HIGH_MOMENTUM and not first else None,
        Suspicion(Cause.NO_WARMUP, 0.2, f"{why}, in step {large['step']}",
                  "Raise the learning rate from 0 over the first 100 steps.") if first else None,
        None if first else Suspicion(Cause.EXPLODING_GRADIENT, 0.2, why,
                                     f"Clip gradients to a norm of 1 ({CLIPPING})."),
    )


def _too_small(ratio: float, rate: float | None, factor: float, memory: Memory) -> tuple[Suspicion, ...]:
    why = f"updates of {number(ratio)} of the weights' norm" + (
        "" if rate is None else f" at a learning rate of {number(rate)}")
    peak = memory["peak_rate"]
    fell = rate is not None and peak > _FELL * rate > 0
    return ranked(
        Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.6, why, f"{sentence(raise_rate(rate, factor))}."),
        Suspicion(Cause.SCHEDULER_MISPLACED, 0.4, f"the learning rate fell from {number(peak)} to {number(rate)}",
                  "Check where the scheduler is stepped.") if fell and rate is not None else None,
    )


_FIRST_STEPS = 10
_HIGH_MOMENTUM = 0.98
_FELL = 5.0


def _round_factor(factor: float) -> float:
    """Return the nearest of 3, 10, 30, 100 …: three digits would suggest false precision.

    Example:
        >>> _round_factor(28.0), _round_factor(120.0)
        (30.0, 100.0)
    """
    half_decades = max(1, round(2 * float(np.log10(factor))))
    return float(f"{10 ** (half_decades / 2):.0e}")
