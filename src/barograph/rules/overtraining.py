"""The rule about training that goes on long after it has stopped to help."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class Overtraining(Rule):
    """L103: Training goes on although neither its loss nor that of validation has become better for long.

    What it sees: at each evaluation the validation loss and, by the same loss function, the median training loss since
      the evaluation before. Overtraining is that the training loss has not improved for `patience_train` evaluations
      AND the validation loss has not for `patience_validation`, where to improve is to be lower than the best so far by
      the share `delta`; and that the steps since then are at least `wasted_share` of all that were made.
    Why it matters: it costs money and brings nothing. It does no harm to the model.
    What to do: stop early; decay the learning rate, which often lets a loss that rests fall on.
    When it is wrong: schedules that wait before they decay; models that learn something that the loss does not tell
      long after it rests (grokking). The default `wasted_share` of 0.9 lets all pass but trainings that could have been
      a tenth as long: lower it where stopping early matters to you.
    Source: Amazon SageMaker Debugger's Overtraining, which says neither whether both must stand still nor what delta is
      a share of; Prechelt, "Early stopping – but when?", 1998.
    """

    code: ClassVar[str] = "L103"
    name: ClassVar[str] = "overtraining"
    severity: ClassVar[Severity] = Severity.NOTE

    patience_train: int = parameter(5, "Evaluations in a row without a better training loss.", at_least=1)
    patience_validation: int = parameter(10, "Evaluations in a row without a better validation loss.", at_least=1)
    delta: float = parameter(0.01, "Share of the best loss by which a better one must be lower.", at_least=0.0)
    wasted_share: float = parameter(
        0.9, "Least share of all steps that must have brought nothing.", at_least=0.0, at_most=1.0,
    )

    @property
    def needs(self) -> tuple[Selection, ...]:
        return tuple(
            Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=frozenset({mode})))
            for mode in (Mode.TRAIN, Mode.EVAL)
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        losses = {key.path: value for key, value in view.scalars(Kind.LOSS).items() if math.isfinite(value)}
        trained: dict[str, list[float]] = memory.setdefault("trained", {})
        if view.step.mode is Mode.TRAIN:
            for name, value in losses.items():
                trained.setdefault(name, []).append(value)
                del trained[name][:-_MOST_TRAINED]
            yield Unjudged("no evaluation was recorded after training")
            return
        path = min((name for name in losses if trained.get(name)), default=None)
        if view.step.mode is not Mode.EVAL or path is None:
            yield Unjudged("no loss was recorded that training and evaluation have in common")
            return
        training, validation = median(trained[path]), losses[path]
        trained.clear()
        best: dict[str, Any] = memory.setdefault("best", {})
        count = memory["count"] = memory.get("count", 0) + 1
        for what, value in (("training", training), ("validation", validation)):
            known = best.get(what)
            if known is None or value < known["value"] - self.delta * abs(known["value"]):
                best[what] = {"value": value, "count": count, "step": view.step.number}
        idle = {what: count - best[what]["count"] for what in best}
        useful = max(best["training"]["step"], best["validation"]["step"])
        wasted = 1 - useful / max(view.step.number, 1)
        if (idle["training"] >= self.patience_train and idle["validation"] >= self.patience_validation
                and wasted >= self.wasted_share):
            yield self._symptom(view, path, best, idle, wasted)
        elif count <= max(self.patience_train, self.patience_validation):
            yield Unjudged(f"{count} evaluations so far; it takes "
                           f"{max(self.patience_train, self.patience_validation) + 1}")

    def _symptom(
        self, view: StepView, path: str, best: dict[str, Any], idle: dict[str, int], wasted: float
    ) -> Symptom:
        step = max(best["training"]["step"], best["validation"]["step"])
        return Symptom(
            message=f"Nothing has become better since step {step}: the training loss for {idle['training']} "
                    f"evaluations (best {number(best['training']['value'])}), the validation loss for "
                    f"{idle['validation']} (best {number(best['validation']['value'])}).",
            remedy=f"Stop at about step {step} next time (early stopping), or decay the learning rate there.",
            evidence=(Evidence(Key(Kind.LOSS, path), view.step.number, "wasted_share", wasted, self.wasted_share,
                               f"{percent(wasted)} of all steps brought nothing"),),
            since=step,
            causes=(Suspicion(Cause.OVERFITTING, 0.1, "training goes on after it has converged"),),
        )


_MOST_TRAINED = 200
