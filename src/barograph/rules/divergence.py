"""The rule about a loss that diverges, upwards or below zero."""

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
from barograph.rules.baseline import (
    BINARY_LOSSES,
    CLASS_LOSSES,
    HALVED_SQUARES,
    NEVER_NEGATIVE,
    SQUARES,
    baseline_of,
    note_targets,
    plain_loss,
    target_level,
)
from barograph.rules.clues import batch_reach, by_weight, fact_value, note_pace, pace_suspicions
from barograph.rules.columns import TOTAL_LOSS, learning_rate, stated_loss
from barograph.rules.suspects import momentum_in, remember_facts
from barograph.rules.words import CLIPPING, SCALE_INPUTS, lower_rate, number, sentence
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class Divergence(Rule):
    """L105: The loss diverges: far above its start, or below a zero that it cannot cross.

    What it sees: the last `window` training losses. They have diverged upwards if all but one of them exceed `factor`
      times the start (or the loss of a constant prediction, if that is more). For losses over distances the limit is
      ten times the mean square of the targets, if recorded; if the range of the loss is unknown, `unknown_factor` times
      the start. Below zero it has diverged if a loss function that cannot be negative is negative, or if the script
      minimizes the negative of one; or if a loss of unknown form falls to −`unknown_factor` times its start, or to ten
      times below zero and faster and faster.
    Why it matters: everything learned is lost, and NaN comes next. A loss with the wrong sign trains the model to be as
      wrong as possible.
    What to do: lower the learning rate, warm it up, clip gradients; remove the minus sign, or minimize the loss itself.
    When it is wrong: a negative loss on purpose, as in attacks on a model (trainings with several optimizers, such as
      adversarial ones, are not judged). If the model computes its own targets, as in Q-learning, the loss grows with
      them; if targets are not recorded, only growth by `unknown_factor` is reported.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). A linear model trained by SGD at three times its highest stable rate is found at step 14, the negative
      of a loss at step 2.
    Source: Goodfellow, Bengio & Courville, "Deep Learning", 2016, section 8.2.4, on cliffs and steps that are too
      large.
    """

    code: ClassVar[str] = "L105"
    name: ClassVar[str] = "divergence"
    severity: ClassVar[Severity] = Severity.COSTLY

    factor: float = parameter(3.0, "Multiple of its start that a loss over classes must exceed.", above=1.0)
    unknown_factor: float = parameter(1000.0, "The same for a loss of unknown range.", above=1.0)
    window: int = parameter(10, "Recorded losses, all but one of which must be beyond the limit.", at_least=2)
    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)
    recovery: int = parameter(10, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = stated_loss(view)
        if found is None or view.step.mode is not Mode.TRAIN or not math.isfinite(found[1]):
            yield Unjudged("no finite training loss was recorded")
            return
        if view.step.has_rivals:
            yield Unjudged("there are several optimizers, whose losses may oppose each other, as in adversarial "
                           "training")
            return
        clues = memory.setdefault("clues", {})
        note_targets(view, clues)
        note_pace(view, clues)
        remember_facts(view, clues, Fact.MOMENTUM)
        negative = _below_zero(view)
        if negative is not None:
            yield negative
            return
        key, loss = found
        losses: list[float] = memory.setdefault("losses", [])
        losses.append(loss)
        del losses[: -self.window]
        if len(losses) < self.window:
            yield Unjudged(f"{len(losses)} losses so far; needs {self.window}")
            return
        # The second least of the first few, or the first: a training that diverges at once has large ones.
        start = memory.setdefault("start", max(losses[0], sorted(losses)[1]))
        now = sorted(losses)[1]
        limit = self._limit(view, start, clues, now)
        if now > limit:
            yield self._above(view, key, now, start, limit, memory)
        elif plain_loss(view) is None:
            level = median(losses)
            faster = self._falls_faster(view.step.number, level, start, memory)
            if faster or level < -self.unknown_factor * max(1.0, abs(start)):
                yield self._bottomless(view, key, level, start, faster=faster)

    def _limit(self, view: StepView, start: float, clues: Memory, now: float) -> float:
        """Return the limit that the loss must exceed; it may be too low if `now` is below it."""
        found = plain_loss(view)
        loss = found[0].path if found else ""
        if loss in CLASS_LOSSES:
            classes = fact_value(view, Fact.CLASSES)
            if classes:
                clues["classes"] = classes
            chance = math.log(clues["classes"]) if clues.get("classes", 0.0) > 1 else 0.0
            least = self.factor * max(start, chance, _LEAST_OF_CLASSES)
            # The entropy of many classes is slow to compute, and can only raise the limit.
            return least if now <= least else max(least, self.factor * (baseline_of(loss, clues) or 0.0))
        level = target_level(loss, clues)
        if level:
            return _OVER_TARGETS * max(start, level**2 if loss in SQUARES | HALVED_SQUARES else level)
        return self.unknown_factor * max(abs(start), 1.0)

    def _above(
        self, view: StepView, key: Key, now: float, start: float, limit: float, memory: Memory
    ) -> Symptom:
        rate = learning_rate(view) or memory["clues"].get("rate")
        slower = sentence(lower_rate(rate, 10))
        return Symptom(
            message=f"The loss diverges: it rose from {number(start)} to over {number(now)}.",
            remedy=f"{slower} and start again, with a warmup over the first hundred steps and gradient clipping "
                   f"({CLIPPING}).",
            evidence=(Evidence(key, view.step.number, "loss", now, limit,
                               f"all but one of the last {self.window} losses; initially {number(start)}"),),
            subject="runs away", causes=_behind_rise(view, memory, slower),
        )

    @staticmethod
    def _falls_faster(step: int, now: float, start: float, memory: Memory) -> bool:
        """Return whether the loss is far below zero and falls faster and faster.

        A negative log-likelihood falls ever more slowly.
        """
        trail: list[list[float]] = memory.setdefault("trail", [])
        if not trail or step >= trail[-1][0] + _TRAIL_STEPS:
            trail.append([step, now])
            del trail[1:-_TRAIL]
        if len(trail) < _TRAIL or now > -_FAR_BELOW * max(1.0, abs(start)):
            return False
        (begin, first), (middle, between), (end, last) = trail[0], trail[len(trail) // 2], trail[-1]
        return bool((between - last) / (end - middle) > _FASTER * max(0.0, (first - between) / (middle - begin)) > 0)

    def _bottomless(
        self, view: StepView, key: Key, now: float, start: float, *, faster: bool
    ) -> Symptom:
        return Symptom(
            message=f"The loss has no lower bound: it fell from {number(start)} to {number(now)}.",
            remedy="Check that the loss has a lower bound: look for a wrong sign or an unbounded term.",
            evidence=(Evidence(key, view.step.number, "median_loss", now,
                               -self.unknown_factor * max(1.0, abs(start)), f"initially {number(start)}"),),
            subject="below zero", severity=Severity.DOUBTFUL,
            causes=(Suspicion(Cause.LOSS_SIGN, 0.85, "the loss falls below zero, faster and faster") if faster else
                    Suspicion(Cause.LOSS_SIGN, 0.5, "the loss falls far below zero"),
                    Suspicion(Cause.WRONG_LOSS, 0.2, "a usual suspect")),
        )


_LEAST_OF_CLASSES = 2.0
"""The first small batches may all be easy."""
_OVER_TARGETS = 10.0
_TRAIL, _TRAIL_STEPS, _FAR_BELOW, _FASTER = 9, 20, 10.0, 1.1
_FAR_INPUT, _HEAVY_MOMENTUM = 30.0, 0.99


def _below_zero(view: StepView) -> Symptom | None:
    """Return the symptom of a negative loss that cannot be negative; None if there is none."""
    losses = view.scalars(Kind.LOSS)
    total = losses.get(TOTAL_LOSS)
    for key in sorted(losses):
        value = losses[key]
        if key == TOTAL_LOSS or key.path not in NEVER_NEGATIVE | {"nll_loss"} or not math.isfinite(value):
            continue
        if key.path in NEVER_NEGATIVE and total is not None and value > 0 and abs(total + value) <= 1e-5 * value:
            return Symptom(
                message=f"The script minimizes the negative of {key.path}: the loss is {number(total)}, and the model "
                        "learns to be as wrong as possible.",
                remedy=f"Remove the minus sign: call backward on {key.path} itself.",
                evidence=(Evidence(TOTAL_LOSS, view.step.number, "loss", total, 0.0,
                                   f"{key.path} is {number(value)}"),),
                subject="below zero",
                causes=(Suspicion(Cause.LOSS_SIGN, 0.9, f"backward starts from −{key.path}"),),
            )
        if value < 0:
            return _impossible(view, key, value)
    return None


def _impossible(view: StepView, key: Key, value: float) -> Symptom:
    if key.path == "nll_loss":
        causes: tuple[Suspicion, ...] = (
            Suspicion(Cause.LOGITS_AS_PROBABILITIES, 0.7, "nll_loss got values above zero, which are no "
                      "log-probabilities", "Apply log_softmax to the outputs, or use cross_entropy."),
        )
        remedy = "nll_loss expects log-probabilities: apply torch.log_softmax(outputs, 1), or use cross_entropy."
    elif key.path in BINARY_LOSSES:
        causes = (Suspicion(Cause.LABELS_OFF_BY_ONE, 0.5, "it is negative only for targets outside 0 to 1"),
                  Suspicion(Cause.WRONG_LOSS, 0.3, "this loss is not meant for targets outside 0 to 1"))
        remedy = "Map the targets to 0 to 1: labels such as 1 and 2, −1 and 1, or 0 to 255 do not fit this loss."
    else:
        causes = (Suspicion(Cause.WRONG_LOSS, 0.5, f"{key.path} is negative only for negative weights or "
                            "targets"),)
        remedy = "Check for negative class or sample weights, and for negative targets."
    return Symptom(
        message=f"{key.path} is {number(value)}; it cannot be negative for valid inputs.", remedy=remedy,
        evidence=(Evidence(key, view.step.number, "loss", value, 0.0, "it cannot be negative"),),
        subject="below zero", causes=causes,
    )


def _behind_rise(view: StepView, memory: Memory, slower: str) -> tuple[Suspicion, ...]:
    momentum = momentum_in(memory["clues"]["facts"])
    reach = batch_reach(view)
    return by_weight([
        Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.5, "the loss is far above its start", f"{slower}."),
        *(item for item in pace_suspicions(memory["clues"]) if item.cause == Cause.LEARNING_RATE_TOO_HIGH),
        Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.4 if reach > _FAR_INPUT else 0.1,
                  f"inputs reach {number(reach)}" if reach > _FAR_INPUT else "a usual suspect", SCALE_INPUTS),
        Suspicion(Cause.MOMENTUM_WRONG, 0.55 if momentum > _HEAVY_MOMENTUM else 0.05,
                  f"momentum is {number(momentum)}" if momentum > _HEAVY_MOMENTUM else "a usual suspect",
                  "Lower the momentum to 0.9."),
        Suspicion(Cause.NO_GRADIENT_CLIPPING, 0.15, "a usual suspect"),
        Suspicion(Cause.LOSS_SIGN, 0.1, "a usual suspect"),
    ])
