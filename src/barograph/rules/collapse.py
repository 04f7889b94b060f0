"""The rule about layers whose outputs are almost identical for every input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.records import Subject, UnitSummaries
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.model.summary import UNIT_FIELDS
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import learning_rate
from barograph.rules.explosion import LOSSES, note_explosion, suspect_explosion
from barograph.rules.recovery import is_gaining
from barograph.rules.suspects import ranked
from barograph.rules.words import HE, lower_rate, names, number, percent, sentence
from barograph.runs.reading.view import StepView

_NONFINITE, _ZEROS, _SUM, _SUM_SQ = (UNIT_FIELDS.index(name) for name in ("nonfinite", "zeros", "sum", "sum_sq"))
_LAYERS = frozenset({"Linear", "Conv1d", "Conv2d", "Conv3d", "ReLU", "Tanh", "Sigmoid", "LayerNorm"})
_LEAST_UNITS, _LEAST_COUNT = 4, 8


@dataclass(frozen=True, kw_only=True)
class ActivationCollapse(Rule):
    """A103: A layer gives almost the same output for every input.

    What it sees: the variance of each unit's outputs over the samples (and positions) of a batch, as a share of the
      layer's mean square output: 0 if every sample gives the same output. A layer has collapsed if that share is below
      `threshold` in three judgments in a row and not growing, while it is a hundred times larger in the first recorded
      layer.
    Why it matters: later layers can no longer distinguish samples; whatever the loss is, the model has a single
      prediction.
    What to do: if the loss exploded before, lower the learning rate; if the units before it are dead, see A101;
      otherwise lower the learning rate or add a normalization layer before it; in self-supervised learning, prevent
      collapse (stop-gradient, negatives, a variance term).
    When it is wrong: layers whose biases are hundreds of times larger than the part that varies. Layers of fewer than
      four units, units with fewer than eight outputs, and batches that repeat one sample are not judged. Deep networks
      start like this and recover, so the first twenty steps are not judged. Variance below 1e-6 of the mean square is
      rounding error and counts as none. Only layers of the classes below are seen.
    Source: Hua et al., "On feature decorrelation in self-supervised learning", 2021; Jing et al., "Understanding
      dimensional collapse in contrastive self-supervised learning", 2022.
    """

    code: ClassVar[str] = "A103"
    name: ClassVar[str] = "activation-collapse"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold: float = parameter(
        1e-4, "Share of variance between samples in a layer's mean square output, below which it has collapsed.",
        above=0.0, below=1.0,
    )
    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        schedule = Schedule(every=50, steps=frozenset({20, 30, 40}), modes=frozenset({Mode.TRAIN}))
        return Selection(kinds=frozenset({Kind.OUTPUT}), layers=_LAYERS, schedule=schedule, units=True), LOSSES

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        note_explosion(view, memory)
        if view.step.mode is not Mode.TRAIN or view.step.number < memory.get("next", _FIRST_STEP):
            yield Unjudged(f"layers are judged every {_APART_STEPS} steps, from step {_FIRST_STEP}")
            return
        found = [(subject, units) for subject, units in view.unit_summaries(Kind.OUTPUT, _LAYERS)
                 if len(units.columns) >= _LEAST_UNITS and units.count >= _LEAST_COUNT]
        if len(found) < _LEAST_LAYERS:
            yield Unjudged("fewer than two layers were recorded per unit")
            return
        memory["layers"] = max(len(found), memory.get("layers", 0))
        if len(found) < memory["layers"]:
            yield Unjudged("only some of the layers were recorded per unit, for other rules")
            return
        memory["next"] = view.step.number + _APART_STEPS
        shares = np.array([varying_share(units) for _, units in found])
        known = shares[~np.isnan(shares)]
        if not len(known) or np.nanmin(shares) >= self.threshold:
            memory["was_well"] = view.step.number
            return
        if known[0] < _ABOVE * self.threshold:
            yield Unjudged("the first layer already gives the same output for all samples: the batch may repeat one "
                           "sample")
            return
        rows = np.flatnonzero(shares < self.threshold)
        if is_gaining(float(shares[rows].min()) + _ROUNDING, memory):
            yield Unjudged("the outputs of a layer are almost identical, but spreading")
            return
        yield self._symptom(view, found, shares, rows.tolist(), memory)

    def _symptom(
        self, view: StepView, found: list[tuple[Subject, UnitSummaries]], shares: np.ndarray[Any, Any], rows: list[int],
        memory: Memory,
    ) -> Symptom:
        worst = sorted(rows, key=lambda row: float(shares[row]))
        which = names([found[row][0].key.path for row in rows])
        share = number(float(shares[worst[0]]))
        why = (f"outputs of {which} are almost identical for every input (between-sample variance {share} of the mean "
               f"square, threshold {number(self.threshold)})")
        dead = float(np.mean([_dead(found[row][1]) for row in rows]))
        slower = sentence(lower_rate(learning_rate(view), 10))
        exploded = suspect_explosion(memory, was_well=memory.get("was_well", -1))
        # From the start, no learning rate can be the reason.
        first = f"{slower}; add" if exploded or "was_well" in memory else "Add"
        return Symptom(
            message=f"{sentence(why)}.",
            remedy=f"{first} a normalization layer before {which}, or "
                   f"initialize with {HE}; in self-supervised learning, prevent collapse "
                   "(stop-gradient, negatives, a variance term).",
            evidence=tuple(Evidence(found[row][0].key, view.step.number, "varying_share", float(shares[row]),
                                    self.threshold, f"between-sample variance {number(float(shares[row]))} of the "
                                                    "mean square")
                           for row in worst[:3]),
            causes=ranked(
                Suspicion(Cause.REPRESENTATION_COLLAPSE, 0.6, why),
                Suspicion(Cause.DEAD_RELU, 0.5, f"{why}; {percent(dead)} of their units are dead") if dead > _MANY_DEAD
                else None,
                exploded or
                (Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.4, f"{why}; at step {memory['was_well']} they were not",
                           f"{slower}.") if "was_well" in memory else
                 Suspicion(Cause.INITIALIZATION_SCALE, 0.4, f"{why} from the start")),
            ),
        )


_FIRST_STEP, _APART_STEPS, _LEAST_LAYERS = 20, 10, 2
_ABOVE = 100.0
_ROUNDING = 1e-7
"""Shares below this are rounding error: differences between them are no growth."""
_MANY_DEAD = 0.5


def varying_share(units: UnitSummaries) -> float:
    """Return the share of a layer's mean square output that is variance between samples; NaN if all are zero.

    Example:
        >>> columns = np.array([[0, 0, 0, 1.0, 3.0, 4.0, 10.0], [0, 0, 0, 2.0, 2.0, 4.0, 8.0]])  # 1, 3 and 2, 2
        >>> round(varying_share(UnitSummaries(2, columns)), 3)
        0.111
    """
    columns = units.columns
    finite = np.maximum(units.count - columns[:, _NONFINITE], 1.0)
    squares = columns[:, _SUM_SQ] / finite
    total = float(squares.sum())
    variance = np.maximum(squares - (columns[:, _SUM] / finite) ** 2, 0.0)
    return float(variance.sum()) / total if total > 0 else float("nan")


def _dead(units: UnitSummaries) -> float:
    return float((units.columns[:, _ZEROS] >= units.count).mean())
