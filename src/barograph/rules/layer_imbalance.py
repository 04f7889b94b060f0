"""The rule about layers that learn at very different speeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import LayerTable, table_of
from barograph.rules.gradients import small_weights
from barograph.rules.recovery import is_gaining
from barograph.rules.step_groups import Flags, Numbers
from barograph.rules.suspects import ranked
from barograph.rules.words import number
from barograph.runs.reading.view import StepView

_APART_STEPS = 20
"""Steps between two comparisons and before the first: at the start layers find their scale."""


@dataclass(frozen=True, kw_only=True)
class LayerImbalance(Rule):
    """W107: Some layers change orders of magnitude faster than others.

    What it sees: the norm of each layer's update relative to its weights, every 20 steps. The rule fires if the fastest
      layer changes `threshold` times faster than the slowest, beyond the ratio of their groups' learning rates, while
      the slowest moves by less than `slow` of its norm and the fastest by more than 100 times `slow`. It stays silent
      while the gap closes.
    Why it matters: one learning rate cannot serve both: a rate that suits the fast layers leaves the slow ones near
      their initial values.
    What to do: add normalization layers; initialize each layer for its width; use Adam or LAMB instead of plain SGD;
      give the slow layers their own parameter group.
    When it is wrong: layers that learn slowly on purpose. Frozen layers, layers initialized to zero, embeddings and
      normalization layers are not checked.
    Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020, on the trust
      ratio of a layer.
    """

    code: ClassVar[str] = "W107"
    name: ClassVar[str] = "layer-imbalance"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    threshold: float = parameter(1e4, "Largest allowed ratio of the fastest layer to the slowest.", above=1.0)
    slow: float = parameter(1e-5, "Change per step, relative to its norm, below which a layer is slow.", above=0.0)
    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        schedule = Schedule(every=_APART_STEPS, modes=frozenset({Mode.TRAIN}))
        return tuple(Selection(kinds=frozenset({kind}), schedule=schedule) for kind in (Kind.UPDATE, Kind.WEIGHT))

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        updates, weights = table_of(view, Kind.UPDATE).layers, table_of(view, Kind.WEIGHT).layers
        if view.step.skipped or view.step.number < memory.get("next", _APART_STEPS):
            yield Unjudged(f"compares layers every {_APART_STEPS} steps, from step {_APART_STEPS} on")
            return
        weight_whole, weight_norms = _beside(updates, weights)
        judged = updates.carrying & weight_whole & (weight_norms > 0)
        if judged.sum() < _LEAST_LAYERS:
            yield Unjudged("fewer than two layers with updates were recorded")
            return
        memory["next"] = view.step.number + _APART_STEPS
        ratios = np.where(judged, updates.l2 / np.where(judged, weight_norms, 1.0), np.nan)
        slowest, fastest = int(np.nanargmin(ratios)), int(np.nanargmax(ratios))
        least, most = float(ratios[slowest]), float(ratios[fastest])
        gains = is_gaining(least / most, memory)
        if most < self.threshold * _spread_of_rates(view) * least or least > self.slow or most < _FAST * self.slow:
            return
        if gains:
            yield Unjudged("the slowest layer is catching up")
            return
        why = (f"{updates.named(fastest)} changes by {number(most)} of its norm per step, {updates.named(slowest)} by "
               f"{number(least)}")
        yield Symptom(
            message=f"Layers learn at very different speeds: {why}.",
            remedy="Add normalization layers, or initialize each layer for its width; or give the slow layer a "
                   "parameter group with a higher learning rate.",
            evidence=(
                Evidence(updates.keys[slowest], view.step.number, "update_ratio", least, most / self.threshold,
                         f"changes by {number(least)} of its norm"),
                Evidence(updates.keys[fastest], view.step.number, "update_ratio", most, least * self.threshold,
                         f"changes by {number(most)} of its norm"),
            ),
            causes=_why_apart(view, slowest, fastest, updates, why),
        )


_LEAST_LAYERS = 2
_FAST = 100.0


def _beside(updates: LayerTable, weights: LayerTable) -> tuple[Flags, Numbers]:
    """Return whether the weights of each updated layer are finite, and their norms: 0 where none were recorded."""
    if updates.paths == weights.paths:
        return weights.whole, weights.l2
    at = {path: row for row, path in enumerate(weights.paths)}
    rows = [at.get(path, -1) for path in updates.paths]
    return np.append(weights.whole, True)[rows], np.append(weights.l2, 0.0)[rows]


def _spread_of_rates(view: StepView) -> float:
    rates = [rate for rate in view.scalars(Kind.LEARNING_RATE).values() if rate > 0]
    return max(rates) / min(rates) if rates else 1.0


def _why_apart(
    view: StepView, slowest: int, fastest: int, updates: LayerTable, why: str
) -> tuple[Suspicion, ...]:
    gradients = table_of(view, Kind.GRADIENT).layers
    norms = dict(zip(gradients.paths, gradients.l2.tolist(), strict=True))
    slow, fast = norms.get(updates.paths[slowest]), norms.get(updates.paths[fastest])
    lost = slow is not None and fast is not None and slow < _LOST * fast
    small = small_weights(view)
    return ranked(
        Suspicion(Cause.VANISHING_GRADIENT, 0.5 if lost else 0.2,
                  f"{why}; their gradients are {number(slow)} and {number(fast)}"
                  if lost and slow is not None and fast is not None else why),
        Suspicion(Cause.INITIALIZATION_SCALE, 0.5 if small else 0.3,
                  f"{why}; the weights of {small} are far too small for their width" if small else why),
    )


_LOST = 1e-2
