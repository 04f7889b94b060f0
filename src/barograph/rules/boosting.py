"""Rules about the learning rate and the number of rounds of boosted trees."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import TOTAL_LOSS, learning_rate
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView

_EVERY = Schedule(every=10, steps=frozenset(range(10)), modes=frozenset({Mode.TRAIN}))
_PLANNED = fact(Fact.ROUNDS_PLANNED)
_STOPPING, _ON_TRAINING = fact(Fact.EARLY_STOPPING), fact(Fact.EARLY_STOPPING, "training")
_DEPTH = Key(Kind.TREE, "depth")


@dataclass(frozen=True, kw_only=True)
class Shrinkage(Rule):
    """T103: The learning rate of a boosted model is too high, or too low for its number of rounds.

    What it sees: the learning rate and the planned number of rounds. Each round removes at most that share of the
      residual, so n rounds remove at most 1 − (1 − rate)ⁿ of it. A rate above `highest` is reported, at which each tree
      overshoots the residual that it fits, and a plan that removes less than `least_reach`.
    Why it matters: above 1 the predictions oscillate, and from 2 on they diverge; with too low a rate the model ends
      close to its initial constant, however good its trees are.
    What to do: a rate of 0.02 to 0.3, and enough rounds that rate · rounds is 3 or more, with early stopping.
    When it is wrong: a rate that a callback raises later; a model that will be trained further.
    Source: Friedman, "Greedy Function Approximation: A Gradient Boosting Machine", 2001, section 5, on shrinkage, which
      lies between 0 and 1; so says XGBoost's documentation of eta.
    """

    code: ClassVar[str] = "T103"
    name: ClassVar[str] = "shrinkage"
    severity: ClassVar[Severity] = Severity.COSTLY

    highest: float = parameter(1.0, "Highest allowed learning rate.", above=0.0)
    least_reach: float = parameter(
        0.2, "Share of the residual that the planned rounds must be able to remove.", at_least=0.0,
        below=1.0,
    )

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.LEARNING_RATE, Kind.FACT}), schedule=_EVERY,
                          include=("group*", _PLANNED.path)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        planned, rate = view.scalar(_PLANNED), learning_rate(view)
        if rate is not None and math.isfinite(rate):
            memory["rate"] = rate
        if planned is None or "rate" not in memory:
            yield Unjudged("no learning rate or number of rounds of a boosted model was recorded")
            return
        rate = float(memory["rate"])
        key = Key(Kind.LEARNING_RATE, "group0")
        if rate > self.highest:
            yield Symptom(
                message=f"The learning rate of the boosted model is {number(rate)}: each tree overshoots the "
                        "residual that it fits.",
                remedy=f"Lower the learning rate from {number(rate)} to 0.3 or less (learning_rate, eta), and let "
                       "early "
                       "stopping choose the number of rounds.",
                evidence=(Evidence(key, view.step.number, "learning_rate", rate, self.highest, "learning rate of the "
                                                                                               "boosted model"),),
                subject="too high",
                causes=(Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.9, f"a learning rate of {number(rate)} scales each "
                                  "tree beyond its fit"),),
            )
            return
        reach = 1.0 - (1.0 - rate) ** planned if rate >= 0 else 0.0
        if reach < self.least_reach:
            yield Symptom(
                message=f"With a learning rate of {number(rate)}, {int(planned)} rounds can remove at most "
                        f"{percent(reach)} of the residual.",
                remedy=f"Raise the learning rate from {number(rate)} to {number(min(0.3, 3 / planned))} or more, or "
                       "the number of rounds "
                       f"to about {number(3 / rate)}." if rate > 0 else "Set a learning rate above 0.",
                evidence=(Evidence(key, view.step.number, "reach", reach, self.least_reach,
                                   f"{int(planned)} rounds at {number(rate)}"),),
                subject="too low",
                causes=(Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.9, f"{int(planned)} rounds at {number(rate)} can "
                                  f"remove at most {percent(reach)} of the residual"),),
            )


@dataclass(frozen=True, kw_only=True)
class RoundsPastBest(Rule):
    """T104: Boosting continues long after its best held-out loss, or early stopping monitors the training data.

    What it sees: the loss of the first held-out data set after every round, as the median of the last `window`. A model
      is past its best if the held-out loss has not improved for `rounds` rounds, exceeds its best by `rise_threshold`
      and by three times its usual change per round, and no early stopping will end the training. If the training loss
      has fallen below `memorized_share` of its first value, so that the samples are memorized, any rise beyond the
      usual change counts. Losses that move in steps, such as error rates, are not judged. Early stopping that monitors
      the training data is reported too: that loss keeps falling, so it never stops anything.
    Why it matters: each further tree fits the training samples only; it makes the model worse and prediction slower.
    What to do: early stopping on held-out data (early_stopping_rounds, lightgbm.early_stopping), and the model of the
      best round; shallower trees, more samples per leaf, a lower learning rate.
    When it is wrong: held-out sets of a few dozen samples, whose best round is chance.
    Source: Prechelt, "Early stopping – but when?", 1998; 50 rounds without improvement is customary for boosted trees.
    """

    code: ClassVar[str] = "T104"
    name: ClassVar[str] = "rounds-past-best"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    rounds: int = parameter(50, "Rounds without a better held-out loss.", at_least=1)
    rise_threshold: float = parameter(0.05, "Share by which the held-out loss must exceed its best.", at_least=0.0)
    memorized_share: float = parameter(
        0.01, "Share of its first value below which the training loss shows that the samples are "
              "memorized.", at_least=0.0,
    )
    window: int = parameter(10, "Held-out losses per median.", at_least=1)
    patience: int = parameter(3, "Judged rounds in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (
            Selection(kinds=frozenset({Kind.LOSS}), include=(TOTAL_LOSS.path,),
                      schedule=Schedule(modes=frozenset({Mode.EVAL}))),
            Selection(kinds=frozenset({Kind.FACT, Kind.TREE, Kind.LOSS}), schedule=_EVERY,
                      include=(f"{Fact.EARLY_STOPPING}*", _DEPTH.path, TOTAL_LOSS.path)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is Mode.TRAIN:
            yield from self._plan(view, memory)
            return
        loss = view.scalar(TOTAL_LOSS)
        if "stopping" not in memory or loss is None or not math.isfinite(loss):
            yield Unjudged("no held-out loss of a boosted model was recorded")
            return
        if memory["stopping"]:
            yield Unjudged(f"early stopping ends the training after {int(memory['stopping'])} rounds without "
                           "improvement")
            return
        yield from self._compared(view, loss, memory)

    @staticmethod
    def _plan(view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        depth, stopping = view.scalar(_DEPTH), view.scalar(_STOPPING)
        if depth is not None and math.isfinite(depth):
            memory["depth"] = depth
        trained = view.scalar(TOTAL_LOSS)
        if trained is not None and math.isfinite(trained):
            memory.setdefault("trained_first", trained)
            memory["trained"] = trained
        if stopping is None or not math.isfinite(stopping):
            yield Unjudged("no early-stopping setting was recorded")
            return
        on_training = bool(view.scalar(_ON_TRAINING))
        memory["stopping"] = 0.0 if on_training else stopping
        if stopping and on_training:
            yield Symptom(
                message="Early stopping monitors the training data, so it never stops the training.",
                remedy="Pass held-out data (evals, valid_sets, eval_set); XGBoost monitors the last set.",
                evidence=(Evidence(_ON_TRAINING, view.step.number, "on_training", 1.0, 0.0,
                                   f"early stopping is set to {int(stopping)} rounds without improvement"),),
                subject="watches the training data",
                causes=(Suspicion(Cause.LEAKY_VALIDATION, 0.9, "early stopping monitors the training data"),
                        Suspicion(Cause.OVERFITTING, 0.3, "nothing stops the training in time")),
            )

    def _compared(self, view: StepView, loss: float, memory: Memory) -> Iterable[Symptom | Unjudged]:
        step, recent = view.step.number, memory.setdefault("recent", [])
        recent.append(loss)
        del recent[: -max(self.rounds, self.window)]
        memory.setdefault("first", loss)
        memory["least"] = min(loss, memory.get("least", loss))
        if len(recent) < self.window:
            yield Unjudged(f"{len(recent)} held-out losses so far; needs {self.window}")
            return
        loss = float(median(recent[-self.window:]))
        if loss < memory.get("best", math.inf):
            memory.update(best=loss, best_step=step)
            return
        best, since = float(memory["best"]), int(memory["best_step"])
        if step - since < self.rounds:
            return
        if len(recent) >= _LEAST_LOSSES and len(set(recent)) <= len(recent) / 2:
            yield Unjudged("the held-out loss moves in steps, as an error rate does")
            return
        by_heart = 0.0 <= memory.get("trained", math.inf) < self.memorized_share * memory.get("trained_first", 0.0)
        limit = best + (0.0 if by_heart else self.rise_threshold * abs(best)) + _MOVES * _moves(recent)
        if loss > limit:
            yield Symptom(
                message=f"The held-out loss was best near round {since} ({number(best)}); {step - since} rounds later "
                        "it is "
                        f"{number(loss)}, and nothing stops the training.",
                remedy=f"Use the model of round {since}, and enable early stopping (early_stopping_rounds, "
                       "lightgbm.early_stopping); try shallower trees or more samples per leaf.",
                evidence=(Evidence(TOTAL_LOSS, step, "validation_loss", loss, limit, f"{number(best)} at best"),),
                subject="past its best", since=since, causes=_behind(memory, by_heart=by_heart),
            )


_MOVES = 3.0
_LEAST_LOSSES = 10
_USUAL_DEPTH = 8
_A_GAIN = 0.01


def _moves(losses: list[float]) -> float:
    """Return the median change of a loss from round to round, beyond its trend."""
    moves = sorted(abs(after - 2 * middle + before) / math.sqrt(6)
                   for before, middle, after in zip(losses, losses[1:], losses[2:], strict=False))
    return moves[len(moves) // 2] if moves else 0.0


def _behind(memory: dict[str, Any], *, by_heart: bool) -> tuple[Suspicion, ...]:
    why = "the held-out loss rises from round to round"
    if by_heart:
        why += f", and the training loss fell to {number(memory['trained'])}: the samples are memorized"
    found = [Suspicion(Cause.OVERFITTING, 0.6, why)]
    depth = memory.get("depth", 0.0)
    if depth > _USUAL_DEPTH:
        found.append(Suspicion(Cause.TREES_TOO_DEEP, 0.5, f"trees are {int(depth)} levels deep"))
    if memory["first"] - memory["least"] < _A_GAIN * abs(memory["first"]):
        found.insert(0, Suspicion(
            Cause.LABELS_UNRELATED, 0.65, "the held-out loss was never better than with the first trees: the model "
                                          "learned "
            "nothing that generalizes",
            "Check a few rows of the training and validation data: does each label belong to its features?"))
    return tuple(found)
