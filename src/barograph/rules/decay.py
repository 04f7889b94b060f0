"""The rule about weight decay and weight penalties."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import learning_rate, stated_loss, table_of
from barograph.rules.suspects import about, remember_facts
from barograph.rules.words import number, percent, sentence
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class WeightDecay(Rule):
    """O104: Weight decay shrinks the weights faster than the gradient can grow them.

    What it sees: the weight decay of the optimizer's groups, the learning rate, and the norms of all weights, gradients
      and updates. A run is reported if its weights have shrunk to `shrunk` of their initial norm or less and keep
      shrinking from one judgment to the next; if the decay is at least `pull` of what moves the weights (λ‖w‖ relative
      to ‖g‖ if the decay is part of the gradient, as in SGD and Adam; ηλ‖w‖ relative to ‖update‖ if it is applied to
      the weights, as in AdamW); and if its loss is less than a tenth below its start. If decay applied to the weights
      removes a hundredth of them in each step (ηλ), neither the loss nor further shrinking is required. A finding stays
      open while the weights remain near zero and the loss does not fall. A penalty that is added to the loss and
      recorded separately, such as Keras's regularizers, is judged by its pull 2R/‖w‖ (the gradient of R = λ‖w‖²), the
      largest in any step, and by the loss without it; the weights need not shrink further.
    Why it matters: the model forgets as fast as it learns, and ends with zero weights and one prediction for every
      input.
    What to do: lower the weight decay, or the penalty; 1e-4 to 5e-4 is usual for SGD and for penalties, 0.01 to 0.1 for
      AdamW. Adam with a weight_decay of AdamW's size is nearly always a mistake: use AdamW.
    When it is wrong: ridge regression and the like, where a strong penalty is the task, if the initial weights are
      larger than the final ones should be.
    Source: Loshchilov & Hutter, "Decoupled weight decay regularization", 2019.
    """

    code: ClassVar[str] = "O104"
    name: ClassVar[str] = "weight-decay"
    severity: ClassVar[Severity] = Severity.COSTLY

    shrunk: float = parameter(0.5, "Share of their initial norm that weights must fall to.", above=0.0, below=1.0)
    pull: float = parameter(0.5, "Share of what moves the weights from which on decay is too large.", above=0.0)
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        training = frozenset({Mode.TRAIN})
        schedule = Schedule(every=10, steps=frozenset(range(5)), modes=training)
        return (
            *(Selection(kinds=frozenset({kind}), schedule=schedule)
              for kind in (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)),
            # With the loss: decay is recorded once, and when it changes.
            Selection(kinds=frozenset({Kind.LOSS, Kind.FACT}), schedule=Schedule(every=10, modes=training),
                      include=("total", PENALTY.path, f"{Fact.WEIGHT_DECAY}*", Fact.DECOUPLED.value)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        facts = remember_facts(view, memory, Fact.WEIGHT_DECAY, Fact.DECOUPLED)
        loss, rate = stated_loss(view), learning_rate(view)
        if view.step.mode is Mode.TRAIN and loss is not None and math.isfinite(loss[1]):
            losses: list[float] = memory.setdefault("losses", [])
            memory.setdefault("first_losses", []).extend([loss[1]] * (len(memory.get("first_losses", [])) < _FEW))
            losses.append(loss[1])
            del losses[:-_FEW]
        if rate is not None:
            memory["rate"] = rate
        weights = table_of(view, Kind.WEIGHT)
        if view.step.mode is not Mode.TRAIN or view.step.skipped or not len(weights) or not weights.is_whole:
            yield Unjudged("no step was recorded with finite weights")
            return
        norm = weights.norm
        first, last = memory.setdefault("first_norm", norm), memory.get("norm", norm)
        memory["norm"] = norm
        penalty = view.scalars(Kind.LOSS).get(PENALTY)
        if penalty is not None and loss is not None and norm > 0 and math.isfinite(penalty):
            yield from self._penalised(view, memory, loss[1], penalty)
            return
        decay = max(about(facts, Fact.WEIGHT_DECAY).values(), default=None)
        if decay is None:
            yield Unjudged("no weight decay of the optimizer was recorded")
            return
        beyond = facts.get(Fact.DECOUPLED.value, 0.0) > 0 and decay * memory.get("rate", 0.0) >= _BEYOND
        lost = _is_lost(memory.get("first_losses"), memory.get("losses"))
        if norm > self.shrunk * first or not decay or not (beyond or lost):
            return
        share = self._share(view, decay, norm, facts, memory)
        if share is None:
            yield Unjudged("no gradient or update was recorded with the weights")
            return
        if share < _HOLDS * self.pull:
            return
        if share >= self.pull and (beyond or norm < last):
            yield self._symptom(view, memory, decay, norm, share)
        else:
            # At nearly zero weights the gradient balances the decay: the fault persists.
            yield Unjudged("the weights are small and the loss has not improved, but they no longer shrink")

    def _penalised(
        self, view: StepView, memory: Memory, loss: float, penalty: float
    ) -> Iterable[Symptom]:
        """Judge a penalty by its share of the gradient, and by the loss without it."""
        norm, first = memory["norm"], memory["first_norm"]
        bare: list[float] = memory.setdefault("bare", [])
        memory.setdefault("first_bare", []).extend([loss - penalty] * (len(memory.get("first_bare", [])) < _FEW))
        bare.append(loss - penalty)
        del bare[:-_FEW]
        gradient = table_of(view, Kind.GRADIENT).norm
        if gradient > 0:
            memory["pulled"] = max(memory.get("pulled", 0.0), 2.0 * penalty / (norm * gradient))
        pulled = memory.get("pulled", 0.0)
        if norm <= self.shrunk * first and pulled >= self.pull and _is_lost(memory["first_bare"], bare):
            yield self._symptom_of_penalty(view, norm, first, bare[-1], pulled)

    @staticmethod
    def _symptom_of_penalty(view: StepView, norm: float, first: float, bare: float, pulled: float) -> Symptom:
        why = (f"weights have shrunk to {percent(norm / first)} of their initial norm, and the gradient of the weight "
               f"penalty was up to {number(pulled)} times the total gradient")
        remedy = "Lower the weight penalty (kernel_regularizer, λ) 100 times and start again."
        return Symptom(
            message=f"{sentence(why)}; the loss without it is {number(bare)}, less than 10% below its start.",
            remedy=remedy,
            evidence=(Evidence(None, view.step.number, "weight_norm", norm, first,
                               f"norm of all weights {number(norm)}, initially {number(first)}"),),
            causes=(Suspicion(Cause.WEIGHT_DECAY_TOO_LARGE, 0.9, why, remedy),),
        )

    @staticmethod
    def _share(view: StepView, decay: float, norm: float, facts: dict[str, float], memory: Memory) -> float | None:
        """Return the decay as a share of what moves the weights; None if that was not recorded."""
        if facts.get(Fact.DECOUPLED.value):
            update = table_of(view, Kind.UPDATE).norm
            return memory["rate"] * decay * norm / update if update and "rate" in memory else None
        gradient = table_of(view, Kind.GRADIENT).norm
        return decay * norm / gradient if gradient else None

    @staticmethod
    def _symptom(view: StepView, memory: Memory, decay: float, norm: float, share: float) -> Symptom:
        first = memory["first_norm"]
        why = (f"weights have shrunk to {percent(norm / first)} of their initial norm, and the weight decay of "
               f"{number(decay)} pulls on them {number(share)} times as strongly as the optimizer moves them")
        remedy = f"Lower the weight decay from {number(decay)} to {number(decay / 100)} and start again."
        return Symptom(
            message=f"{why[:1].upper()}{why[1:]}.", remedy=remedy,
            evidence=(Evidence(None, view.step.number, "weight_norm", norm, first,
                               f"norm of all weights {number(norm)}, initially {number(first)}"),),
            causes=(Suspicion(Cause.WEIGHT_DECAY_TOO_LARGE, 0.9, why, remedy),),
        )


def _is_lost(first: list[float] | None, now: list[float] | None) -> bool:
    """Return whether a loss is less than a tenth below its start, or unknown."""
    if not first or not now:
        return True
    began = max(median(first), first[0])
    return bool(median(now) > began - _GAINED * abs(began))


PENALTY = Key(Kind.LOSS, "regularization")
_FEW, _GAINED = 5, 0.1
_HOLDS = 0.1
_BEYOND = 1e-2
