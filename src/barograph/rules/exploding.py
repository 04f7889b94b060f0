"""The rule about gradients that grow towards the first layers, or from step to step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import GRADIENTS, LayerTable, learning_rate, stated_loss, table_of
from barograph.rules.depth import forward_order, growth_backwards, remember_order
from barograph.rules.suspects import about, momentum_in, ranked, recurrent, remember_facts
from barograph.rules.words import BY_ACTIVATION, CLIPPING, lower_rate, number, sentence
from barograph.runs.reading.view import StepView

_APART_STEPS = 10
_AT_LEAST_RISES = 3
_LEVEL_OF = 10
"""Recorded norms per level, which is their median."""


@dataclass(frozen=True, kw_only=True)
class ExplodingGradient(Rule):
    """G103: The gradient grows by orders of magnitude, from the last layer to the first or from step to step.

    What it sees: gradients before clipping, short of infinity, in two ways. (1) The gradient norms of the layers, in
      every tenth step: the median of the first third of the layers relative to that of the last third, if at least four
      layers have a gradient and it grows in most of them on the way back. Reported from `ratio` on, three judgments in
      a row. (2) The norm of all gradients together: it has risen in four consecutive recorded steps, or in four medians
      of ten steps each, to `growth` times its start and beyond all earlier values, while the loss at least doubled, to
      above its start.
    Why it matters: the first layers take steps that are far too large, and a step later all layers do. NaN comes next.
    What to do: (1) smaller initial weights (kaiming_normal_, xavier_uniform_, orthogonal_ for recurrent layers),
      normalization layers, residual paths. (2) A lower learning rate, warmup, clipping.
    When it is wrong: embeddings and normalization layers are not judged. A gradient that grows while the loss falls, as
      when a model leaves a plateau, is not reported, nor one that grows within `growth`, as with weights that shrink
      before a normalization layer. A loss that is meant to rise.
    Source: Pascanu, Mikolov & Bengio, "On the difficulty of training recurrent neural networks", 2013.
    """

    code: ClassVar[str] = "G103"
    name: ClassVar[str] = "exploding-gradient"
    severity: ClassVar[Severity] = Severity.COSTLY

    ratio: float = parameter(1e3, "Allowed ratio of the first layers' gradients to the last layers'.", above=1.0)
    growth: float = parameter(100.0, "Allowed growth of the norm while the loss rises.", above=1.0)
    recovery: int = parameter(20, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Each judged step must show whether gradients are clipped.
        return (Selection(kinds=GRADIENTS, schedule=Schedule(modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        table = table_of(view, Kind.GRADIENT)
        remember_order(view, memory)
        if view.step.skipped or view.step.mode is not Mode.TRAIN or not len(table) or not table.is_whole:
            yield Unjudged("no finite gradient was recorded")
            return
        facts = remember_facts(view, memory, Fact.MOMENTUM, Fact.GRADIENTS_KEPT)
        yield from self._by_depth(view, table.layers, memory)
        norm = table.norm
        found = stated_loss(view)
        rise = _rise(memory, view.step.number, norm, None if found is None else found[1])
        if rise is not None and norm > 0 and rise["growth"] >= self.growth:
            yield self._by_time(view, table.layers, norm, rise, facts)

    def _by_depth(self, view: StepView, layers: LayerTable, memory: Memory) -> Iterable[Symptom]:
        if view.step.number >= memory.get("next", 0):
            memory["next"] = view.step.number + _APART_STEPS
            growth = growth_backwards(layers, memory) or 0.0
            memory["in_a_row"] = memory.get("in_a_row", 0) + 1 if growth >= self.ratio else 0
            memory["depth"] = growth
        if memory["in_a_row"] < _AT_LEAST_RISES:
            return
        rows = [row for row in forward_order(layers, memory) or () if layers.carrying[row]]
        if not rows:
            return
        first, last = rows[0], rows[-1]
        why = (f"the gradient norm grows from {number(float(layers.l2[last]))} at {layers.named(last)} to "
               f"{number(float(layers.l2[first]))} at {layers.named(first)}")
        yield Symptom(
            message=f"The gradient explodes: {why}.",
            remedy=f"Initialize weights smaller ({BY_ACTIVATION}, orthogonal for recurrent layers), "
                   "or add a normalization layer after each layer.",
            evidence=tuple(Evidence(layers.keys[row], view.step.number, "l2", float(layers.l2[row]), math.nan,
                                    f"norm {number(float(layers.l2[row]))}") for row in (first, last)),
            subject="depth",
            causes=(Suspicion(Cause.EXPLODING_GRADIENT, 0.6, why), Suspicion(Cause.INITIALIZATION_SCALE, 0.5, why)),
        )

    def _by_time(
        self, view: StepView, layers: LayerTable, norm: float, rise: dict[str, Any], facts: dict[str, float]
    ) -> Symptom:
        begun, from_norm = rise["begun"]
        why = (f"the gradient norm rose from {number(from_norm)} at step {begun:,} to {number(norm)}, and the "
               f"loss from {number(rise['loss'])} to {number(rise['loss_now'])}")
        slower = sentence(lower_rate(learning_rate(view), 10))
        momentum = momentum_in(facts)
        clipped = len(table_of(view, Kind.GRADIENT_CLIPPED)) > 0
        again = recurrent(layers.classes)
        return Symptom(
            message=f"The gradient explodes: {why}.",
            remedy=f"{slower} or warm it up; or clip gradients to a norm of {number(2 * rise['norm'])} "
                   f"({CLIPPING}).",
            evidence=(Evidence(None, view.step.number, "gradient_norm", norm, self.growth * rise["norm"],
                               f"{number(norm / rise['norm'])} times the norm at step {rise['step']:,}"),),
            subject="time", since=begun,
            causes=ranked(
                Suspicion(Cause.GRADIENTS_NOT_RESET, 0.9, f"{why}, and gradients are not reset between steps",
                          "Call optimizer.zero_grad() in every step.")
                if about(facts, Fact.GRADIENTS_KEPT).get("", 0.0) else None,
                Suspicion(Cause.MOMENTUM_WRONG, 0.7, f"{why}, with a momentum of {number(momentum)}",
                          f"Lower the momentum from {number(momentum)} to 0.9.")
                if momentum >= _HIGH_MOMENTUM else None,
                Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.4 if again else 0.6, why, f"{slower}."),
                Suspicion(Cause.EXPLODING_GRADIENT, 0.5 if again else 0.3, why),
                None if clipped else Suspicion(Cause.NO_GRADIENT_CLIPPING, 0.5 if again else 0.2,
                                               f"{why}, and gradients are not clipped"),
            ),
        )


_HIGH_MOMENTUM = 0.98
_RISEN = 1.0
_BEGUN = 2.0
"""A rise begins where the norm was last within this many times its lowest: before that, noise may rise by chance."""


def _rise(memory: Memory, step: int, norm: float, loss: float | None) -> dict[str, Any] | None:
    """Record a norm and its loss; return the rise that ends here, of single steps or of medians.

    Only if both exceed all earlier values: a converged training may jump a thousandfold and still be below its start.
    """
    if loss is None or not math.isfinite(loss):
        return None
    first = memory.setdefault("first_loss", loss)
    found = _streak(memory.setdefault("single", {}), step, norm, loss)
    gathered: list[list[float]] = memory.setdefault("gathered", [])
    gathered.append([step, norm, loss])
    level = None
    if len(gathered) >= _LEVEL_OF:
        level = _streak(memory.setdefault("levels", {}), int(gathered[0][0]), median(item[1] for item in gathered),
                        median(item[2] for item in gathered))
        gathered.clear()
    rise = found or level
    return rise if rise is not None and loss > first and norm > rise["highest"] else None


def _streak(memory: dict[str, Any], step: int, norm: float, loss: float) -> dict[str, Any] | None:
    """Record a value; return the start of the current rise, if it is long enough and the loss rose with it."""
    if norm > memory.get("last", math.inf):
        memory["rises"] += 1
        if norm < _BEGUN * memory["norm"]:
            memory["begun"] = [step, norm]
    else:
        # A rise must exceed the highest value before it.
        memory.update(rises=0, norm=norm, step=step, loss=loss, begun=[step, norm],
                      highest=max(memory.get("highest", 0.0), memory.get("last", 0.0)))
    memory["last"] = norm
    if memory["rises"] < _AT_LEAST_RISES or loss < memory["loss"] + _RISEN * abs(memory["loss"]) or not memory["norm"]:
        return None
    return {**memory, "growth": norm / memory["norm"], "loss_now": loss}
