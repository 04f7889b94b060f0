"""The rule about how weights were when training began."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

import numpy as np

from barograph.measures.histogram import quantile
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.records import Subject
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.step import Mode
from barograph.model.summary import UNIT_FIELDS
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import layer_path, stated_loss, table_of
from barograph.rules.words import names, number
from barograph.runs.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_LINEAR = ("Linear", "Conv1d", "Conv2d", "Conv3d")
_LEAST_UNITS = 4
_LATE, _LEAST_JUDGED = 5, 3
"""Under a budget the first records may come this many times later than asked for; then so many are judged."""


@dataclass(frozen=True, kw_only=True)
class PoorWeightInitialization(Rule):
    """W102: The weights began so that training cannot begin.

    What it sees: in the first `steps` steps, three things. (1) All units of a linear or convolutional layer give the
      very same statistics: they began equal, get equal gradients, and stay one unit for ever. (2) The variance of
      outputs grows more than `threshold` times from one linear or convolutional layer to the next, on average over
      the model without its last layer and without normalisation layers. (3) The gradients of some layer spread
      (95th − 5th percentile) less than `distribution_range` of those of the widest layer, and the loss has
      neither fallen by 1 % nor risen by 20 % over the last `loss_patience` losses.
    Why it matters: a bad start costs the first part of training at best, and all of it at worst.
    What to do: initialise weights at random, for the activation that follows (kaiming_normal_ for ReLU,
      xavier_uniform_ for tanh and sigmoid), biases at zero; put normalisation layers in.
    When it is wrong: layers that are meant to begin at zero break their symmetry with the first update, so they are
      judged from the third step on; a frozen layer of zeros does not. Models without activations between their
      layers may grow on purpose. What follows the first steps is not judged, so the finding stays.
    Tried on: silent on all 145 healthy trainings: at PyTorch's default initialisation the variance grows at most
      twice a layer, and the narrowest gradients spread 9e-4 of the widest (ten layers). Constant and zero weights (1),
      weights of standard deviation 1 (2), weights of 1e-3, 20 ReLU layers and 6 sigmoids (3) fire by step 10.
    Source: He, Zhang, Ren & Sun, "Delving deep into rectifiers", 2015; Amazon SageMaker Debugger's
      PoorWeightInitialization, whose `threshold` compared weights of layers of any width, whose range was absolute,
      and whose `patience` is `loss_patience` here.
    """

    code: ClassVar[str] = "W102"
    name: ClassVar[str] = "poor-weight-initialization"
    severity: ClassVar[Severity] = Severity.COSTLY

    steps: int = parameter(10, "Steps at the start that are judged.", at_least=4)
    threshold: float = parameter(10.0, "Growth of the outputs' variance per layer that is let pass.", above=1.0)
    distribution_range: float = parameter(
        1e-4, "Spread of a layer's gradients beside the widest layer's below which they are narrow.",
        above=0.0, below=1.0,
    )
    loss_patience: int = parameter(5, "Losses at the end of the first steps that must not have fallen.", at_least=1)
    patience: int = parameter(2, "Judged steps in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Symmetry by the third step, and every third from there: what begins at zero on purpose has moved by then.
        schedule = Schedule(every=0, steps=frozenset(range(3, max(self.steps, 7), 3)), modes=_IN_TRAINING)
        return (
            Selection(kinds=frozenset({Kind.OUTPUT}), layers=frozenset(_LINEAR), schedule=schedule, units=True),
            Selection(kinds=frozenset({Kind.GRADIENT}), schedule=schedule, histogram=Histogram.SAMPLED),
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
        if view.step.mode is not Mode.TRAIN or step >= _LATE * self.steps or step < _SYMMETRY_FROM:
            yield Unjudged(f"no step between {_SYMMETRY_FROM} and {_LATE * self.steps} was recorded with its outputs")
            return
        found_here = [_symmetric(view)]
        if step < self.steps or memory.get("judged", 0) < _LEAST_JUDGED:
            memory["judged"] = memory.get("judged", 0) + 1
            found_here += [self._growing(view), self._narrow(view, losses)]
        yield from (item for item in found_here if item is not None)
        if next(view.unit_summaries(Kind.OUTPUT, _LINEAR), None) is None:
            yield Unjudged("no units of linear or convolutional layers were recorded in the first steps")

    def _growing(self, view: StepView) -> Symptom | None:
        outputs = table_of(view, Kind.OUTPUT)
        rows = [row for row, subject in enumerate(outputs.subjects) if subject.layer in _LINEAR][:-1]
        if len(rows) < 2 or any("Norm" in subject.layer for subject in outputs.subjects):
            return None
        variances = outputs.variance[rows]
        if not (np.isfinite(variances).all() and variances[0] > 0):
            return None
        growth = float((variances[-1] / variances[0]) ** (1 / (len(rows) - 1)))
        if growth <= self.threshold:
            return None
        first, last = outputs.subjects[rows[0]], outputs.subjects[rows[-1]]
        return Symptom(
            message=f"The outputs grow from layer to layer: their variance is {number(float(variances[0]))} at "
                    f'"{first.key.path}" and {number(float(variances[-1]))} at "{last.key.path}", {number(growth)} '
                    "times more with each layer.",
            remedy="The weights are too large for the width of their layers: initialise them with kaiming_normal_ "
                   f"(ReLU) or xavier_uniform_ (tanh), which makes them about {number(growth ** 0.5)} times smaller.",
            evidence=(Evidence(last.key, view.step.number, "variance_growth", growth, self.threshold,
                               f"variance grows {number(growth)} times a layer"),),
            subject="growing outputs",
        )

    def _narrow(self, view: StepView, losses: list[float]) -> Symptom | None:
        if len(losses) <= self.loss_patience or not _stands_still(losses):
            return None
        spreads: list[tuple[float, Subject]] = []
        for subject, summary in view.summaries(Kind.GRADIENT):
            exempt = "Norm" in subject.layer or subject.layer.startswith("Embedding")
            if not exempt and summary.exponents and subject.key.path.endswith("weight"):
                spreads.append((quantile(summary, 0.95) - quantile(summary, 0.05), subject))
        widest = max((spread for spread, _ in spreads), default=0.0)
        limit = self.distribution_range * widest
        narrow = sorted((spread, subject.key) for spread, subject in spreads if spread < limit)
        if not narrow:
            return None
        return Symptom(
            message=f"The gradients of {names([layer_path(key.path) for _, key in narrow])} spread over "
                    f"{number(narrow[0][0])}, those of the widest layer over {number(widest)}, and the loss has not "
                    f"fallen from {number(losses[0])}.",
            remedy="Initialise weights for the activation that follows (kaiming_normal_ for ReLU, xavier_uniform_ for "
                   "tanh and sigmoid) with zero biases, or put a normalisation layer after each layer.",
            evidence=tuple(Evidence(key, view.step.number, "spread", spread, limit,
                                    f"95th − 5th percentile {number(spread)}") for spread, key in narrow[:3]),
            subject="narrow gradients",
        )


_SYMMETRY_FROM = 3
_FALL, _RISE = 0.01, 0.2


def _stands_still(losses: list[float]) -> bool:
    """Return whether the last losses are where the first was: neither fallen, nor thrown up by too large a step."""
    scale = abs(losses[0])
    return median(losses[1:]) >= losses[0] - _FALL * scale and max(losses[1:]) <= losses[0] + _RISE * scale


_COMPARED = [UNIT_FIELDS.index(name) for name in ("min", "max", "sum", "sum_sq")]


def _symmetric(view: StepView) -> Symptom | None:
    same = []
    for subject, units in view.unit_summaries(Kind.OUTPUT, _LINEAR):
        columns = units.columns[:, _COMPARED]
        if len(columns) < _LEAST_UNITS or not np.isfinite(columns).all():
            continue
        # Equal sums come out of matrix products with their last bits astray.
        if np.allclose(columns, columns[0], rtol=1e-4, atol=1e-12 * units.count):
            same.append((subject.key, len(columns)))
    if not same:
        return None
    return Symptom(
        message=f"All units of {names([key.path for key, _ in same])} give the same: they began equal, and learn the "
                "same.",
        remedy="Initialise the weights at random (kaiming_normal_ for ReLU, xavier_uniform_ for tanh and sigmoid), "
               "never with a constant; only biases may begin at zero.",
        evidence=tuple(Evidence(key, view.step.number, "equal_units", float(count), float(count),
                                f"all {count} units have equal statistics") for key, count in same[:3]),
        subject="equal units",
    )
