"""Rules about units (neurons, channels) that are dead or saturated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.records import Subject, UnitSummaries
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.model.summary import UNIT_FIELDS, Summary
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.baseline import FAR_FROM_CHANCE
from barograph.rules.clues import large_step_in, note_largest_step
from barograph.rules.columns import learning_rate, stated_loss, table_of
from barograph.rules.once import once
from barograph.rules.scale import LARGE_INPUT, is_normalised_before, mean_derivative, size_of_inputs
from barograph.rules.step_groups import Numbers
from barograph.rules.suspects import momentum_in, ranked, remember_facts
from barograph.rules.words import BY_ACTIVATION, HE, SCALE_INPUTS, XAVIER, lower_rate, number, percent, sentence
from barograph.runs.reading.view import StepView

_AT = {name: index for index, name in enumerate(UNIT_FIELDS)}
_EVERY = Schedule(every=20, modes=frozenset({Mode.TRAIN}))
_APART_STEPS = 10
"""Steps between two judgments of one layer."""
_FIRST_STEP, _SETTLED_STEP = 10, 20
"""Units of deep networks may all be on or all off at initialization and recover within a few steps: nothing is judged
before the first, and before the second only layers that are dead as a whole count."""
_LEAST_UNITS = 4
"""A layer with fewer units is an output or a gate, and may legitimately be off."""

_PASSING = ("MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "Dropout", "Flatten", "Unflatten", "Identity")
"""Modules that pass a unit's zeros through."""


@dataclass(frozen=True, kw_only=True)
class DeadRelu(Rule):
    """A101: Most units of a ReLU layer are dead: they output zero for almost every sample.

    What it sees: for each unit (channel of a convolution, else neuron) after a ReLU, the share of nonzero outputs, over
      at least a hundred outputs gathered from as many recorded steps as that takes. A unit is dead if that share is
      below `threshold_inactivity`. A layer is reported if more than `threshold_layer` of its units are dead; once the
      loss has halved, only if more than nine in ten are, since the model evidently trains with the rest. Up to nine in
      ten the finding is doubtful, above that costly. If the units were alive in the first steps, before a step that
      changed the weights by more than a tenth, the learning rate is suspected. A ReLU called as a function is seen if
      its output is the input of a module.
    Why it matters: a dead unit gets no gradient, so it never comes back. The layer works with what is left.
    What to do: lower the learning rate, since one large step kills most units; initialize weights with kaiming_normal_
      (He) and biases to 0; replace ReLU by LeakyReLU, GELU or SiLU; add a normalization layer before it.
    When it is wrong: networks that are sparse by design; deep networks in their first steps, whose units may all be on
      or off for all inputs; batches with few kinds of samples.
    Tested on: no finding on all 145 healthy trainings, whose layers have up to 39% of their units dead (47% in the
      first steps of six layers and more). Biases initialized to −5 and learning rates of 2 (SGD), 0.1 and 1 (Adam) are
      found at steps 40 to 80, with 63% to 100% dead.
    Source: Lu, Shin, Su & Karniadakis, "Dying ReLU and initialization", 2019; Amazon SageMaker Debugger's DeadRelu.
    """

    code: ClassVar[str] = "A101"
    name: ClassVar[str] = "dead-relu"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold_inactivity: float = parameter(
        0.01, "Share of outputs that are not zero below which a unit is dead.", above=0.0, below=1.0,
    )
    threshold_layer: float = parameter(0.5, "Share of dead units that a layer may have.", above=0.0, below=1.0)
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.OUTPUT, Kind.INPUT}), layers=frozenset({"ReLU", "ReLU6", "relu"}),
                          schedule=_EVERY, units=True),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        judged = waiting = early = 0
        works = _has_halved(view, memory)
        note_largest_step(view, memory)
        facts = remember_facts(view, memory, Fact.MOMENTUM)
        last: dict[str, int] = memory.setdefault("judged", {})
        for subject, units in _after(view, ("ReLU", "ReLU6"), "relu"):
            if view.step.number < last.get(subject.key.path, _FIRST_STEP - _APART_STEPS) + _APART_STEPS:
                early += 1
                if view.step.number < _FIRST_STEP and (units.columns[:, _AT["zeros"]] < units.count).mean() > _MOST:
                    # One nonzero output proves a unit alive; it takes many zeros to call one dead.
                    memory.setdefault("was_alive", {})[subject.key.path] = view.step.number
                continue
            gathered = _gathered(memory, view.step.number, subject.key, units, _AT["zeros"],
                                 least=round(1 / self.threshold_inactivity))
            if gathered is None:
                waiting += 1
                continue
            judged += 1
            last[subject.key.path] = view.step.number
            zeros, count, since = gathered
            active = 1.0 - zeros / count
            dead = active < self.threshold_inactivity
            if dead.mean() > (_NEARLY_ALL if works or view.step.number < _SETTLED_STEP else self.threshold_layer):
                momentum = momentum_in(facts)
                yield self._symptom(view, subject, dead, count, since, memory, momentum)
            else:
                memory.setdefault("was_alive", {})[subject.key.path] = view.step.number
        if waiting:
            yield Unjudged("not enough outputs of ReLU units yet to call one dead")
        elif early:
            yield Unjudged(f"a layer is judged every {_APART_STEPS} steps, from step {_FIRST_STEP}")
        elif not judged:
            yield Unjudged(_why_none(view, ("ReLU", "ReLU6"), "relu"))

    def _symptom(
        self, view: StepView, subject: Subject, dead: NDArray[np.bool_], count: int, since: int, memory: Memory,
        momentum: float,
    ) -> Symptom:
        share = float(dead.mean())
        slower = sentence(lower_rate(learning_rate(view), 10))
        return Symptom(
            message=f"{int(dead.sum())} of {len(dead)} units {_where(subject)} are dead: each is zero in "
                    f"more than {percent(1 - self.threshold_inactivity)} of {count} outputs.",
            remedy=f"{slower} and start again: dead units do not come back. Or use LeakyReLU, initialize biases to 0 "
                   f"and weights with {HE}, or add a normalization layer before the ReLU.",
            evidence=(Evidence(subject.key, view.step.number, "dead_share", share, self.threshold_layer,
                               f"{percent(share)} of units dead"),),
            subject=subject.key.path, since=since,
            # Many models train well with half of their units; none does with a tenth.
            severity=Severity.DOUBTFUL if share <= _NEARLY_ALL else None,
            causes=_why_dead(view, subject, share, memory, momentum),
        )


@dataclass(frozen=True, kw_only=True)
class SaturatedActivation(Rule):
    """A102: Most units of a tanh or sigmoid layer are saturated and pass almost no gradient.

    What it sees: for each unit after a tanh or sigmoid, the mean derivative over its outputs: exactly 1 − mean(y²) for
      tanh and mean(y) − mean(y²) for sigmoid. A unit is saturated if that is below `threshold_derivative` (as if all
      inputs were beyond ±3.00 and ±4.59). A layer is reported if more than `threshold_layer` of its units are
      saturated. The model's last activation is its output and is not judged, nor are layers with fewer than four units.
    Why it matters: the gradient through a saturated unit is multiplied by almost zero: everything before it stops
      learning.
    What to do: initialize weights with xavier_uniform_; add a normalization layer before the activation; lower the
      learning rate; scale inputs to zero mean and unit variance; replace the activation by ReLU or GELU.
    When it is wrong: gates that are open or shut by design; binary codes in an inner layer.
    Tested on: no finding on all 145 healthy trainings; the median unit of their tanh layers has a mean derivative of at
      least 0.69, of their sigmoid layers 0.2. Tanh layers with weights of standard deviation 3 are found by step 120,
      of standard deviation 30 at step 20; eight sigmoid layers at the end of a training that failed.
    Source: Glorot & Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010;
      Amazon SageMaker Debugger's SaturatedActivation, which counts inputs beyond bounds.
    """

    code: ClassVar[str] = "A102"
    name: ClassVar[str] = "saturated-activation"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold_derivative: float = parameter(
        0.01, "Mean derivative below which a unit is saturated.", above=0.0, below=0.25,
    )
    threshold_layer: float = parameter(
        0.5, "Share of saturated units that a layer may have.", above=0.0, below=1.0,
    )
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.OUTPUT, Kind.INPUT}),
                          layers=frozenset({"Tanh", "Sigmoid", "tanh", "sigmoid"}), schedule=_EVERY, units=True),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        judged = 0
        classes = remember_facts(view, memory, Fact.CLASSES).get(Fact.CLASSES.value, 0.0)
        # A loss that starts far above chance halves just by unlearning its initial predictions.
        began_far = classes >= 2 and memory.get("first_loss", 0.0) > FAR_FROM_CHANCE * math.log(classes)
        works = _has_halved(view, memory) and not began_far
        last = [subject.key for subject in view.columns(Kind.OUTPUT, histograms=False).subjects[-1:]]
        found = (*_after(view, ("Tanh",), "tanh"), *_after(view, ("Sigmoid",), "sigmoid"))
        for subject, units in found:
            if subject.key in last:
                continue
            judged += 1
            derivative = _mean_derivative(subject.layer, units)
            saturated = derivative < self.threshold_derivative
            if saturated.mean() > (_NEARLY_ALL if works else self.threshold_layer):
                yield self._symptom(view, subject, derivative, saturated, memory)
            else:
                memory.setdefault("was_open", {})[subject.key.path] = view.step.number
        if not judged:
            yield Unjudged("the only tanh or sigmoid is the model's last activation" if found else
                           _why_none(view, ("Tanh", "Sigmoid"), "tanh", "sigmoid"))

    def _symptom(
        self, view: StepView, subject: Subject, derivative: Numbers, saturated: NDArray[np.bool_], memory: Memory
    ) -> Symptom:
        share, middle = float(saturated.mean()), float(np.median(derivative))
        slower = lower_rate(learning_rate(view), 10)
        return Symptom(
            message=f"{int(saturated.sum())} of {len(saturated)} units {_where(subject)} are saturated: their mean "
                    f"derivative is below {number(self.threshold_derivative)} (median over all units "
                    f"{number(middle)}).",
            remedy=f"Initialize the weights before it with {XAVIER}, or add a normalization layer before it; if "
                   f"it was unsaturated at first, {slower}; or replace it by ReLU or GELU.",
            evidence=(Evidence(subject.key, view.step.number, "saturated_share", share, self.threshold_layer,
                               f"{percent(share)} of units saturated"),),
            subject=subject.key.path,
            severity=Severity.DOUBTFUL if share <= _NEARLY_ALL else None,
            causes=_why_saturated(view, subject, share, memory.get("was_open", {}).get(subject.key.path)),
        )


def _has_halved(view: StepView, memory: Memory) -> bool:
    """Record the loss; return whether it is below half of the first one."""
    found = stated_loss(view)
    if found is None or view.step.mode is not Mode.TRAIN or not math.isfinite(found[1]):
        return bool(memory.get("halved"))
    memory["halved"] = 0 < found[1] < _HALF * memory.setdefault("first_loss", found[1])
    return bool(memory["halved"])


_HALF, _NEARLY_ALL = 0.5, 0.9


def _why_dead(
    view: StepView, subject: Subject, share: float, memory: Memory, momentum: float
) -> tuple[Suspicion, ...]:
    """Return the causes of dead units: from the biases before them, their history, and large steps."""
    rate, alive = learning_rate(view), memory.get("was_alive", {}).get(subject.key.path)
    large = large_step_in(memory)
    threw = alive is not None and large is not None
    bias = _bias_before(view, subject)
    mean, mean_square = (float("nan"), float("nan")) if bias is None else bias
    # After a large step, the step made the weights and biases low, not the initialization.
    low = not threw and mean < -_LOW_BIAS and mean_square < 2 * mean * mean
    died = f"{percent(share)} of the units are dead"
    # Units that were alive once were not dead from the start.
    weight = None if alive is not None else _negative_weight_before(view, subject)
    before = None if alive is not None else _summary_before(view, subject, "weight", "kernel")
    if before is not None and before.zeros == before.finite:
        return (Suspicion(Cause.CONSTANT_INITIALIZATION, 0.9, f"{died}; all weights before them are 0",
                          f"Initialize the weights at random ({BY_ACTIVATION}). Only biases may be 0."),)
    return ranked(
        Suspicion(Cause.DEAD_RELU, 0.9, f"{died}; the mean weight before them is {number(weight)}",
                  f"Initialize the weights around 0, as {HE} does.") if weight is not None else
        Suspicion(Cause.DEAD_RELU, 0.9 if low else 0.6,
                  f"{died}; the mean bias before them is {number(mean)}" if low else died,
                  "Initialize biases to 0, or use LeakyReLU." if low else ""),
        Suspicion(Cause.MOMENTUM_WRONG, 0.6, f"{died}; they were alive at step {alive}; the momentum is "
                  f"{number(momentum)}", f"Lower the momentum from {number(momentum)} to 0.9.")
        if alive is not None and momentum >= _HIGH_MOMENTUM else None,
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.75 if threw else 0.4, f"{died}; they were alive at step {alive}"
                  + (f"; {large}" if threw else ""),
                  f"{sentence(lower_rate(rate, 10))}.") if alive is not None else
        Suspicion(Cause.INITIALIZATION_SCALE, 0.2, f"{died} since the first recorded step"),
    )


def _why_saturated(view: StepView, subject: Subject, share: float, was_open: int | None) -> tuple[Suspicion, ...]:
    """Return the causes of saturated units: from the weights before them, the batch, and their history."""
    shut = f"{percent(share)} of the units are saturated"
    large = 0.0 if is_normalised_before(view, subject.key.path) else size_of_inputs(view) or 0.0
    gain = _gain_before(view, subject)
    return ranked(
        # Saturation is its own cause unless something else explains it.
        Suspicion(Cause.SATURATED_ACTIVATION,
                  0.5 if large > LARGE_INPUT or (was_open is None and gain > _LARGE_GAIN) else 0.75, shut),
        Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.6, f"the model's inputs have an RMS of {number(large)}",
                  SCALE_INPUTS) if large > LARGE_INPUT else None,
        Suspicion(Cause.INITIALIZATION_SCALE, 0.6, f"{shut} since step {view.step.number} or earlier; the squared "
                  f"weights that feed one unit add up to {number(gain)}, where 1 is usual",
                  f"Initialize the weights with {XAVIER}.") if was_open is None and gain > _LARGE_GAIN else None,
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.4, f"{shut}; they were not at step {was_open}",
                  f"{sentence(lower_rate(learning_rate(view), 10))}.") if was_open is not None else None,
    )


_LOW_BIAS = 0.5
_LEAST_WEIGHTS = 8
_MOST = 0.5
_HIGH_MOMENTUM = 0.98
_LARGE_GAIN = 4.0


def _module_before(view: StepView, subject: Subject) -> str:
    """Return the path of the module that ran before an activation module or function."""
    order = table_of(view, Kind.OUTPUT)
    row = _row_by_path(order.subjects).get(subject.key.path, 0) - 1
    while row >= 0 and order.subjects[row].layer.startswith(_PASSING):
        row -= 1
    return order.paths[row] if row >= 0 else ""


def _summary_before(view: StepView, subject: Subject, *names: str) -> Summary | None:
    """Return a parameter of the layer that feeds an activation, or None.

    That is the layer itself if it contains the activation, as in Keras, else the module before it."""
    for layer in (subject.key.path, _module_before(view, subject)):
        for name in names:
            found = view.summary(Key(Kind.WEIGHT, f"{layer}.{name}"))
            if found is not None and found.finite:
                return found
    return None


def _bias_before(view: StepView, subject: Subject) -> tuple[float, float] | None:
    """Return mean and mean square of the biases before an activation, or None if unknown."""
    bias = _summary_before(view, subject, "bias")
    return None if bias is None else (bias.mean, bias.sum_sq / bias.finite)


def _negative_weight_before(view: StepView, subject: Subject) -> float | None:
    """Return the mean of the weights before an activation if most are negative, or None."""
    weight = _summary_before(view, subject, "weight", "kernel")
    if weight is None or weight.finite < _LEAST_WEIGHTS:
        return None
    variance = weight.sum_sq / weight.finite - weight.mean**2
    # Below minus one standard deviation, five of six weights are negative.
    return weight.mean if weight.mean < -math.sqrt(max(variance, 0.0)) else None


def _gain_before(view: StepView, subject: Subject) -> float:
    """Return the sum of the squared weights that feed one unit before an activation, or 0 if unknown."""
    units, weight = view.units(subject.key), _summary_before(view, subject, "weight", "kernel")
    return weight.sum_sq / len(units.columns) if units is not None and weight is not None else 0.0


def _mean_derivative(layer: str, units: UnitSummaries) -> Numbers:
    finite = np.maximum(units.count - units.columns[:, _AT["nonfinite"]], 1.0)
    mean, mean_square = units.columns[:, _AT["sum"]] / finite, units.columns[:, _AT["sum_sq"]] / finite
    return mean_derivative(layer, mean, mean_square)


def _after(view: StepView, classes: tuple[str, ...], function: str) -> Iterator[tuple[Subject, UnitSummaries]]:
    """Yield the units after each activation, whether a module of these classes or a call of the function."""
    for subject, units in view.unit_summaries(Kind.OUTPUT, classes):
        if len(units.columns) >= _LEAST_UNITS:
            yield subject, units
    order = view.columns(Kind.OUTPUT, histograms=False).subjects
    for subject, units in view.unit_summaries(Kind.INPUT, (function,)):
        row = _row_by_path(order).get(subject.key.path, 0) - 1
        while row >= 0 and order[row].layer.startswith(_PASSING):
            row -= 1
        # Modules are judged by their own outputs; only functions have none.
        if len(units.columns) >= _LEAST_UNITS and not (row >= 0 and order[row].layer in classes):
            yield subject, units


@once
def _row_by_path(subjects: tuple[Subject, ...]) -> dict[str, int]:
    return {subject.key.path: row for row, subject in enumerate(subjects)}


def _why_none(view: StepView, classes: tuple[str, ...], *functions: str) -> str:
    """Return why no layer with these activations could be judged."""
    seen = (*view.unit_summaries(Kind.OUTPUT, classes), *view.unit_summaries(Kind.INPUT, functions))
    after = " or ".join(functions)
    if any(len(units.columns) < _LEAST_UNITS for _, units in seen):
        return f"the layers after a {after} have fewer than {_LEAST_UNITS} units: they are outputs or gates"
    return f"no units after a {after} were recorded"


def _gathered(
    memory: Memory, step: int, key: Key, units: UnitSummaries, column: int, *, least: int
) -> tuple[Numbers, int, int] | None:
    """Return a column and the outputs per unit, summed over recorded steps, and the first of these steps.

    None until each unit has `least` outputs."""
    gathering: dict[str, Any] = memory.setdefault("gathering", {})
    values, count, since = units.columns[:, column], units.count, step
    before = gathering.pop(str(key), None)
    if before is not None and len(before[0]) == len(values):
        values, count, since = values + np.asarray(before[0]), count + before[1], before[2]
    if count < least:
        gathering[str(key)] = [values.tolist(), count, since]
        return None
    return values, count, since


def _where(subject: Subject) -> str:
    if subject.key.kind is Kind.INPUT:
        return f'after the {subject.layer} before "{subject.key.path}"'
    return f'of "{subject.key.path}" ({subject.layer})'
