"""The rule about the initialization of weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median
from typing import ClassVar

import numpy as np

from barograph.measures.histogram import quantile
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind, layer_path
from barograph.model.records import Subject
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.step import Mode
from barograph.model.summary import UNIT_FIELDS
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import learning_rate, stated_loss, table_of
from barograph.rules.gradients import small_weights
from barograph.rules.recovery import is_gaining
from barograph.rules.suspects import ranked
from barograph.rules.words import BY_ACTIVATION, names, number
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_LINEAR = ("Linear", "Conv1d", "Conv2d", "Conv3d")
_ACTIVATED = ("ReLU", "Tanh", "Sigmoid", "GELU", "SiLU", "ELU", "SELU", "LeakyReLU", "Softplus")
"""Class recorded for a Keras layer that contains its activation, such as `Dense(8, activation="relu")`."""
_LEAST_UNITS = 4
_LATE, _LEAST_JUDGED = 5, 3
"""Under a budget the first records may come this many times later than requested; then so many steps are judged."""


@dataclass(frozen=True, kw_only=True)
class PoorWeightInitialization(Rule):
    """W102: The initial weights keep training from starting.

    What it sees: three things in the first `steps` steps. (1) All units of a linear or convolutional layer have the
      same statistics: they were initialized equal, get equal gradients, and stay one unit forever; or they did at step
      0, in a layer before the last whose outputs differ between samples: then only later layers differentiate them,
      slowly. (2) The variance of outputs grows more than `threshold` times from one linear or convolutional layer to
      the next, on average over the model without its last layer and without normalization layers, and the weights of
      these layers are too large for their width: the squared weights that feed one unit add up to more than 4 on
      average (2 with kaiming_normal_). (3) The gradients of a layer spread (95th − 5th percentile) less than
      `distribution_range` of the widest layer's and are not catching up (by half in three such steps), and the loss
      has neither fallen by 1% nor risen by 20% over the last `loss_patience` losses; not during a warmup of the
      learning rate.
    Why it matters: a bad initialization costs the first part of training at best, and all of it at worst.
    What to do: initialize weights at random, for the activation that follows (kaiming_normal_ for ReLU, xavier_uniform_
      for tanh and sigmoid), and biases to 0; add normalization layers.
    When it is wrong: layers initialized to zero on purpose break their symmetry with the first update, so they are
      judged from the third step on, and not by step 0, where their output is the same for all samples; a frozen layer
      of zeros does not. Models without activations between layers may grow on purpose. Only the first steps are judged,
      so a finding stays open; a finding of narrow gradients alone (3) closes when the loss has fallen by 5%.
    Tested on: no finding on all 145 healthy trainings: with PyTorch's default initialization the variance grows at most
      twice per layer, and the narrowest gradients spread 9e-4 of the widest (ten layers). Constant and zero weights
      (1), weights of standard deviation 1 (2), weights of 1e-3, 20 ReLU layers and 6 sigmoids (3) are found by step 10.
    Source: He, Zhang, Ren & Sun, "Delving deep into rectifiers", 2015; Amazon SageMaker Debugger's
      PoorWeightInitialization, whose `threshold` compared weights of layers of any width, whose range was absolute,
      and whose `patience` is `loss_patience` here.
    """

    code: ClassVar[str] = "W102"
    name: ClassVar[str] = "poor-weight-initialization"
    severity: ClassVar[Severity] = Severity.COSTLY

    steps: int = parameter(10, "First steps to judge.", at_least=4)
    threshold: float = parameter(10.0, "Allowed growth of the outputs' variance per layer.", above=1.0)
    distribution_range: float = parameter(
        1e-4, "Spread of a layer's gradients, relative to the widest layer's, below which they are narrow.",
        above=0.0, below=1.0,
    )
    loss_patience: int = parameter(5, "Losses at the end of the first steps that must not have fallen.", at_least=1)
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Symmetry from the third step on, every third step: layers initialized to zero on purpose have moved by then.
        steps = frozenset(range(3, max(self.steps, 7), 3))
        schedule = Schedule(every=0, steps=steps, modes=_IN_TRAINING)
        return (
            Selection(kinds=frozenset({Kind.OUTPUT}), layers=frozenset((*_LINEAR, *_ACTIVATED)),
                      schedule=Schedule(every=0, steps=steps | {0}, modes=_IN_TRAINING), units=True),
            Selection(kinds=frozenset({Kind.GRADIENT}), schedule=schedule, histogram=Histogram.SAMPLED),
            Selection(kinds=frozenset({Kind.WEIGHT}), schedule=schedule),
            Selection(kinds=frozenset({Kind.LOSS}),
                      schedule=Schedule(end=_LATE * self.steps, modes=_IN_TRAINING)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        losses: list[float] = memory.setdefault("losses", [])
        found = stated_loss(view)
        if found is not None and view.step.mode is Mode.TRAIN and math.isfinite(found[1]):
            losses.append(found[1])
            # The first, and the last few.
            del losses[1:-self.loss_patience]
        step = view.step.number
        rate = learning_rate(view)
        if rate is not None:
            memory["warms_up"] = memory.get("warms_up", False) or rate > memory.setdefault("first_rate", rate)
        if step == 0 and view.step.mode is Mode.TRAIN:
            memory["began_equal"] = [[key.path, count] for key, count in _equal_units(view, at_first=True)]
        if view.step.mode is not Mode.TRAIN or step >= _LATE * self.steps or step < _SYMMETRY_FROM:
            if not self._narrow_no_more(losses, memory):
                yield Unjudged(f"no step between {_SYMMETRY_FROM} and {_LATE * self.steps} was recorded with outputs")
            return
        found_here = [_symmetric(view) or _began_equal(memory)]
        if step < self.steps or memory.get("judged", 0) < _LEAST_JUDGED:
            memory["judged"] = memory.get("judged", 0) + 1
            found_here += [self._growing(view, losses, memory), self._narrow(view, losses, memory)]
        for symptom in found_here:
            if symptom is not None:
                memory["found"] = sorted({*memory.get("found", ()), symptom.subject})
                yield symptom
        if next(view.unit_summaries(Kind.OUTPUT, _LINEAR), None) is None:
            yield Unjudged("no units of linear or convolutional layers were recorded in the first steps")

    def _narrow_no_more(self, losses: list[float], memory: Memory) -> bool:
        """Return whether narrow gradients were the only finding, and the loss has fallen since."""
        return (memory.get("found") == [_NARROW] and len(losses) > self.loss_patience
                and median(losses[1:]) < losses[0] - _CLEAR_FALL * abs(losses[0]))

    def _growing(self, view: StepView, losses: list[float], memory: Memory) -> Symptom | None:
        if losses and losses[-1] > _THROWN * abs(losses[0]):
            return None  # the first steps, not the initialization, made the weights large
        outputs = table_of(view, Kind.OUTPUT)
        rows = [row for row, subject in enumerate(outputs.subjects) if subject.layer in _LINEAR][:-1]
        if len(rows) < 2 or any("Norm" in subject.layer for subject in outputs.subjects):
            return None
        variances = outputs.variance[rows]
        if not (np.isfinite(variances).all() and variances[0] > 0):
            return None
        growth = float((variances[-1] / variances[0]) ** (1 / (len(rows) - 1)))
        gains: dict[str, float] = memory.setdefault("gains", {})
        gains.update(_gains(view))
        known = [gains[path] for row in rows if (path := outputs.subjects[row].key.path) in gains]
        # Parallel layers with inputs of different scales do not amplify each other.
        if growth <= self.threshold or not known or _geometric_mean(known) <= _LARGE_GAIN:
            return None
        first, last = outputs.subjects[rows[0]], outputs.subjects[rows[-1]]
        return Symptom(
            message=f"Outputs grow from layer to layer: their variance is {number(float(variances[0]))} at "
                    f'"{first.key.path}" and {number(float(variances[-1]))} at "{last.key.path}", {number(growth)} '
                    "times higher with each layer.",
            remedy=f"Initialize the weights for their activation ({BY_ACTIVATION}), which makes them about "
                   f"{number(growth ** 0.5)} times smaller: they are too large for the width of their layers.",
            evidence=(Evidence(last.key, view.step.number, "variance_growth", growth, self.threshold,
                               f"variance grows {number(growth)} times per layer"),),
            subject="growing outputs",
            causes=(Suspicion(Cause.INITIALIZATION_SCALE, 0.8,
                              f"the variance of outputs grows {number(growth)} times per layer"),),
        )

    def _narrow(self, view: StepView, losses: list[float], memory: Memory) -> Symptom | None:
        if memory.get("warms_up"):
            return None
        spreads: list[tuple[float, Subject]] = []
        for subject, summary in view.summaries(Kind.GRADIENT):
            exempt = "Norm" in subject.layer or subject.layer.startswith("Embedding")
            if not exempt and summary.exponents and subject.key.path.endswith("weight"):
                spreads.append((quantile(summary, 0.95) - quantile(summary, 0.05), subject))
        widest = max((spread for spread, _ in spreads), default=0.0)
        limit = self.distribution_range * widest
        narrow = sorted((spread, subject.key) for spread, subject in spreads if spread < limit)
        gains = bool(narrow) and is_gaining(narrow[0][0] / widest, memory)
        if not narrow or gains or len(losses) <= self.loss_patience or not _stands_still(losses):
            return None
        return Symptom(
            message=f"The gradients of {names([layer_path(key.path) for _, key in narrow])} are much smaller than "
                    f"those of other layers: 90% of them are within a range of {number(narrow[0][0])}, in the widest "
                    f"layer of {number(widest)}, and the loss is still {number(losses[0])}.",
            remedy=f"Initialize the weights for the activation that follows ({BY_ACTIVATION}) "
                   "and biases to 0, or add a normalization layer after each layer.",
            evidence=tuple(Evidence(key, view.step.number, "spread", spread, limit,
                                    f"95th − 5th percentile {number(spread)}") for spread, key in narrow[:3]),
            subject=_NARROW, causes=_why_narrow(view, narrow[0][0] / widest),
        )


def _why_narrow(view: StepView, share: float) -> tuple[Suspicion, ...]:
    small = small_weights(view)
    why = f"the range of the gradients of one layer is only {number(share)} of another's from the start"
    return ranked(
        Suspicion(Cause.VANISHING_GRADIENT, 0.4, why),
        Suspicion(Cause.INITIALIZATION_SCALE, 0.7 if small else 0.3,
                  f"{why}; the weights of {small} are far too small for their width" if small else why),
    )


_SYMMETRY_FROM = 3
_THROWN = 2.0
_FALL, _RISE, _CLEAR_FALL = 0.01, 0.2, 0.05
_NARROW = "narrow gradients"
_LARGE_GAIN = 4.0
"""Twice what kaiming_normal_ makes."""


def _gains(view: StepView) -> dict[str, float]:
    """Return the factor by which each linear or convolutional layer multiplies the mean square of its inputs.

    It is the sum of the squared weights that feed one unit, for weights without pattern."""
    weights = table_of(view, Kind.WEIGHT)
    squares = dict(zip(weights.paths, weights.column("sum_sq").tolist(), strict=True))
    return {
        path: squares[f"{path}.weight"] / len(units.columns)
        for subject, units in view.unit_summaries(Kind.OUTPUT, _LINEAR)
        if f"{(path := subject.key.path)}.weight" in squares
    }


def _geometric_mean(values: list[float]) -> float:
    return math.exp(fmean(math.log(max(value, 1e-300)) for value in values))


def _stands_still(losses: list[float]) -> bool:
    """Return whether the last losses equal the first: neither lower, nor raised by too large a step."""
    scale = abs(losses[0])
    return median(losses[1:]) >= losses[0] - _FALL * scale and max(losses[1:]) <= losses[0] + _RISE * scale


_COMPARED = [UNIT_FIELDS.index(name) for name in ("min", "max", "sum", "sum_sq")]


def _equal_units(view: StepView, *, at_first: bool = False) -> list[tuple[Key, int]]:
    """Return the layers whose units all have the same statistics, with their numbers of units.

    Args:
        view: View of a step.
        at_first: The step precedes any update: a layer with the same output for all samples may be meant to, and
            labels differentiate the units of the last layer.
    """
    same = []
    weights = table_of(view, Kind.WEIGHT)
    # Any naming: `fc.weight`, `Dense_0.kernel`, `0.w`, or a parameter that is its own layer.
    random = {place for path, variance in zip(weights.paths, weights.variance.tolist(), strict=True)
              if variance > 0 and not path.rpartition(".")[2].startswith("b") for place in (path, layer_path(path))}
    weighted = {layer_path(path) for path in weights.paths}
    layers = list(view.unit_summaries(Kind.OUTPUT, (*_LINEAR, *_ACTIVATED)))
    for subject, units in layers[:-1] if at_first else layers:
        columns = units.columns[:, _COMPARED]
        if len(columns) < _LEAST_UNITS or not np.isfinite(columns).all():
            continue
        activated = subject.layer in _ACTIVATED
        if activated and subject.key.path not in weighted:
            continue  # a separate activation equals its layer, which is judged itself
        if (at_first or activated or subject.key.path in random) and (columns[:, 0] == columns[:, 1]).all():
            continue  # inputs are zero, since the units before are dead: the output is the bias
        # Matrix products give equal sums up to rounding.
        if np.allclose(columns, columns[0], rtol=1e-4, atol=1e-12 * units.count):
            same.append((subject.key, len(columns)))
    return same


def _symmetric(view: StepView) -> Symptom | None:
    same = _equal_units(view)
    if not same:
        return None
    return Symptom(
        message=f"All units of {names([key.path for key, _ in same])} are identical: they were initialized equal and "
                "get equal gradients.",
        remedy=_AT_RANDOM,
        evidence=tuple(Evidence(key, view.step.number, "equal_units", float(count), float(count),
                                f"all {count} units have equal statistics") for key, count in same[:3]),
        subject="equal units",
        causes=(Suspicion(Cause.CONSTANT_INITIALIZATION, 0.9,
                          f"all {same[0][1]} units of \"{same[0][0].path}\" are identical"),),
    )


def _began_equal(memory: Memory) -> Symptom | None:
    """Return the symptom of units that were identical before the first update and no longer are."""
    same: list[tuple[str, int]] = memory.get("began_equal", [])
    if not same:
        return None
    which = names([path for path, _ in same])
    return Symptom(
        message=f"All units of {which} were identical at step 0: they were initialized equal, and only later layers "
                "differentiate them.",
        remedy=_AT_RANDOM,
        evidence=tuple(Evidence(Key(Kind.OUTPUT, path), 0, "equal_units", float(count), float(count),
                                f"all {count} units had equal statistics") for path, count in same[:3]),
        subject="equal units", since=0,
        causes=(Suspicion(Cause.CONSTANT_INITIALIZATION, 0.9,
                          f"all {same[0][1]} units of \"{same[0][0]}\" were identical at step 0"),),
    )


_AT_RANDOM = (f"Initialize the weights at random ({BY_ACTIVATION}): not to a "
              "constant, and not with one random key for all units. Only biases may be 0.")
