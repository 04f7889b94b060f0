"""The rule about training that continues long after it stopped improving."""

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
    """L103: Training continues although neither training nor validation loss improves.

    What it sees: at each evaluation, the validation loss and the median training loss since the previous evaluation,
      from the same loss function. The rule fires if the training loss has not improved for `patience_train` evaluations
      and the validation loss not for `patience_validation`, where an improvement is lower than the best by the share
      `delta`; and if the steps since then are at least `wasted_share` of all steps. It does not fire if the training
      loss never fell by the share `learned` of the first one: then the model has not learned, and other rules say why.
    Why it matters: it costs money and gains nothing. It does not harm the model.
    What to do: stop early, or decay the learning rate, which often lets a level loss fall further.
    When it is wrong: schedules that wait before they decay; models that learn something that the loss does not show,
      long after it levels off (grokking). The default `wasted_share` of 0.9 reports only trainings that could have been
      ten times shorter: lower it if early stopping matters to you.
    Source: Amazon SageMaker Debugger's Overtraining, which documents neither whether both losses must stop improving
      nor what delta is relative to; Prechelt, "Early stopping – but when?", 1998.
    """

    code: ClassVar[str] = "L103"
    name: ClassVar[str] = "overtraining"
    severity: ClassVar[Severity] = Severity.NOTE

    patience_train: int = parameter(5, "Evaluations in a row without a better training loss.", at_least=1)
    patience_validation: int = parameter(10, "Evaluations in a row without a better validation loss.", at_least=1)
    delta: float = parameter(0.01, "Share of the best loss by which a better one must be lower.", at_least=0.0)
    wasted_share: float = parameter(
        0.9, "Least share of all steps without an improvement.", at_least=0.0, at_most=1.0,
    )

    learned: float = parameter(0.1, "Share of the first training loss by which it must have fallen.", at_least=0.0)

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
                memory.setdefault("first", {}).setdefault(name, value)
                trained.setdefault(name, []).append(value)
                del trained[name][:-_MOST_TRAINED]
            yield Unjudged("no evaluation was recorded after training")
            return
        path = min((name for name in losses if trained.get(name)), default=None)
        if view.step.mode is not Mode.EVAL or path is None:
            yield Unjudged("training and evaluation recorded no common loss")
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
        first = memory["first"][path]
        has_learned = first - best["training"]["value"] >= self.learned * abs(first)
        if (has_learned and idle["training"] >= self.patience_train and idle["validation"] >= self.patience_validation
                and wasted >= self.wasted_share):
            yield self._symptom(view, path, best, idle, wasted)
        elif count <= max(self.patience_train, self.patience_validation):
            yield Unjudged(f"needs {max(self.patience_train, self.patience_validation) + 1} evaluations; "
                           f"this run has {count}")

    def _symptom(
        self, view: StepView, path: str, best: dict[str, Any], idle: dict[str, int], wasted: float
    ) -> Symptom:
        step = max(best["training"]["step"], best["validation"]["step"])
        return Symptom(
            message=f"No improvement since step {step}: in {idle['training']} evaluations of the training loss (best "
                    f"{number(best['training']['value'])}) and {idle['validation']} of the validation loss (best "
                    f"{number(best['validation']['value'])}).",
            remedy=f"Stop at about step {step} next time (early stopping), or decay the learning rate there.",
            evidence=(Evidence(Key(Kind.LOSS, path), view.step.number, "wasted_share", wasted, self.wasted_share,
                               f"{percent(wasted)} of all steps gained nothing"),),
            since=step,
            causes=(Suspicion(Cause.OVERFITTING, 0.1, "training continues after it has converged"),),
        )


_MOST_TRAINED = 200
