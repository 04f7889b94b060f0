"""Rules that hold the loss against chance: what a model loses that has not looked at its inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.baseline import FAR_FROM_CHANCE, SOFTMAX_LOSSES, baseline_of, plain_loss
from barograph.rules.clues import batch_reach, by_weight, fact_value, goes_at_a_usual_pace, pace_suspicions
from barograph.rules.course import course_of, fall_of
from barograph.rules.predictions import are_unrelated, note_predictions
from barograph.rules.standing import NOISY, Level, follow
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_LOSSES = Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=_IN_TRAINING))
_TARGETS = Selection(
    kinds=frozenset({Kind.LABEL, Kind.TARGET, Kind.CONFUSION}),
    schedule=Schedule(every=20, steps=frozenset(range(0, 10, 2)), modes=_IN_TRAINING),
)


@dataclass(frozen=True, kw_only=True)
class Plateau(Rule):
    """L106: The loss came down a little and rests, hardly better than one answer for all inputs.

    What it sees: the training loss where a loss function of torch stands alone in what is minimised, beside its
      baseline: the entropy of the labels, or the variance of the targets (see L108). A plateau is a loss that fell from
      where it began, has since rested for `least_steps` (by less than 0.5 % of the baseline) and for half of the
      training, and stands between `near_baseline` of the baseline and where L108 takes over.
    Why it matters: so near the baseline the model has hardly used its inputs; more of the same will not help.
    What to do: look at labels and inputs first; then try learning rates ten times as large and as small.
    When it is wrong: tasks that are as hard as that. A loss that rests farther down may have converged, and is let
      pass: no number tells a good floor from a bad one.
    Source: Karpathy, "A Recipe for Training Neural Networks", 2019: compare with an input-independent baseline.
    """

    code: ClassVar[str] = "L106"
    name: ClassVar[str] = "plateau"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    near_baseline: float = parameter(
        0.9, "Share of the baseline above which a plateau is told.", at_least=0.0, below=1.0,
    )
    least_steps: int = parameter(500, "Steps that the loss must have rested for.", at_least=1)
    window: int = parameter(10, "Recorded losses whose median is taken.", at_least=1)
    patience: int = parameter(3, "Medians in a row that must show the fault before a finding opens.", at_least=1)
    recovery: int = parameter(5, "Medians in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (_LOSSES, _TARGETS)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        level = follow(view, memory, self.window, self.least_steps)
        if isinstance(level, Unjudged) or level.is_noisy:
            yield level if isinstance(level, Unjudged) else NOISY
            return
        now, baseline = level.fall.now, level.baseline
        course = course_of(memory)
        rested = fall_of(course[len(course) // 2 :], noise=0.0)
        if rested is None or course[-1].last - course[len(course) // 2].first < self.least_steps:
            yield Unjudged(f"the second half of the training spans fewer than {self.least_steps} steps")
            return
        near = self.near_baseline * baseline <= now < _UNDERFIT * baseline
        if near and abs(rested.before - rested.now) < _RESTS * baseline and level.first > (1 + _FELL) * now:
            since = course[len(course) // 2].first
            yield Symptom(
                message=f"The loss rests at {now:.4g} since step {since} or before, {percent(now / baseline)} of what "
                        f"one answer for all inputs would lose ({baseline:.4g}).",
                remedy="See that labels belong to their inputs and inputs differ; then train on one batch alone with "
                       "learning rates ten times as large and ten times as small.",
                evidence=(Evidence(level.key, view.step.number, "median_loss", now, self.near_baseline * baseline,
                                   f"fell by {number(rested.before - rested.now)} in the second half of the training"),
                          ),
                since=since, causes=_behind_standing_at_chance(memory, now, baseline),
            )


_UNDERFIT, _FELL, _RESTS = 0.97, 0.05, 0.005


@dataclass(frozen=True, kw_only=True)
class WrongChance(Rule):
    """L107: The first loss is far above what an untrained model should have.

    What it sees: the loss of the first step, where a loss function over classes stands alone in what is minimised, and
      the number of classes. A model that knows nothing and says so loses ln C. The first loss is wrong where it is
      `factor` times that, and 4 above it. Below ln C is well: a model that comes trained begins there.
    Why it matters: the model begins sure of nonsense. The first hundred steps go into taking that back, and large
      outputs bring large gradients with them.
    What to do: begin the last layer with small weights (a tenth of its usual scale) and no bias; bring inputs to zero
      mean and unit variance; normalise before the last layer.
    When it is wrong: a trained model whose classes now mean something else; an embedding that serves as the last layer
      and begins with unit variance, where training gets over it soon.
    Tried on: silent on 19 small healthy trainings, a GAN, a policy, Q-learning and batches of one among them (one seed
      each). Digits with pixels from 0 to 255 begin with 12.7 in place of 2.3 and fire.
    Source: Karpathy, "A Recipe for Training Neural Networks", 2019: "verify loss at init".
    """

    code: ClassVar[str] = "L107"
    name: ClassVar[str] = "wrong-chance"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    factor: float = parameter(FAR_FROM_CHANCE, "How many times ln C the first loss must be.", above=1.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        first = Schedule(every=0, steps=frozenset({0}), modes=_IN_TRAINING)
        return (
            Selection(kinds=frozenset({Kind.LOSS}), schedule=first),
            Selection(kinds=frozenset({Kind.FACT}), include=(f"{Fact.CLASSES.value}*",), schedule=first),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.number != 0 or view.step.mode is not Mode.TRAIN:
            # No later step says anything about the first one, so what was found there stays found.
            yield Unjudged("the first step was not recorded")
            return
        found, classes = plain_loss(view), fact_value(view, Fact.CLASSES)
        if found is None or found[0].path not in SOFTMAX_LOSSES or not classes or classes < 2:
            yield Unjudged("no first loss over a known number of classes was recorded")
            return
        key, loss = found
        chance = math.log(classes)
        limit = max(self.factor * chance, chance + _LEAST_EXCESS)
        if loss <= limit:
            return
        reach = batch_reach(view)
        yield Symptom(
            message=f"The first loss is {number(loss)}; a model that knows nothing of {int(classes)} classes should "
                    f"begin with ln {int(classes)} = {number(chance)}.",
            remedy="Begin the last layer with weights of a tenth of their scale and no bias, and "
                   "bring the inputs to zero mean and unit variance.",
            evidence=(Evidence(key, view.step.number, "loss", loss, limit, f"ln C is {number(chance)}"),),
            causes=by_weight([
                Suspicion(Cause.INITIALIZATION_SCALE, 0.5, f"the first loss is {number(loss / chance)} times ln C"),
                Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.55 if reach > _FAR_INPUT else 0.15,
                          f"inputs reach {number(reach)}" if reach > _FAR_INPUT else "a usual suspect"),
                Suspicion(Cause.LABELS_OFF_BY_ONE, 0.1, "a trained model whose classes are counted otherwise"),
            ]),
        )


_LEAST_EXCESS = 4.0
_FAR_INPUT = 30.0


@dataclass(frozen=True, kw_only=True)
class Underfit(Rule):
    """L108: The training loss stays at what one answer for all inputs would lose.

    What it sees: the training loss where a loss function of torch stands alone in what is minimised, beside its
      baseline: the entropy of the labels for losses over classes, the variance of the targets for the mean squared
      error, gathered over the steps that recorded them. The model underfits where the last third of the losses stands
      between `near_baseline` and `above_baseline` of the baseline, over at least `least_steps` steps since the learning
      rate last rose, and does not fall by a hundredth of the baseline. Where single losses are too noisy for that, or
      the first third still came down to the baseline, the mean of the last two thirds will do, if the last answers to
      200 labels and more have nothing to do with them (χ² of the counts). Likewise where the losses of four
      evaluations and more that are as far apart stand there.
    Why it matters: the model has learnt how often each answer is right, and nothing of its inputs.
    What to do: train on one batch alone. If the loss does not fall to zero there, the fault is in the loss, the graph
      or the learning rate; if it does, look at labels and inputs.
    When it is wrong: tasks that are as hard as that (returns of shares, coin tosses); models that stand at chance for
      hundreds of steps before they learn; losses weighted by class, whose baseline is another (where they differ by
      more than `above_baseline` nothing is said). Trainings with several optimizers are not judged.
    Tried on: silent on 19 small healthy trainings, a GAN, a policy, Q-learning and batches of one among them (one seed
      each). Labels shuffled and learning rates of 1e-4 (SGD) and 1e-6 (Adam) fire at step 229; under the default
      budget, where so small a training records few losses, by its evaluations at step 286.
    Source: Karpathy, "A Recipe for Training Neural Networks", 2019: compare with an input-independent baseline.
    """

    code: ClassVar[str] = "L108"
    name: ClassVar[str] = "underfit"
    severity: ClassVar[Severity] = Severity.COSTLY

    near_baseline: float = parameter(_UNDERFIT, "Share of the baseline from which on the loss is at it.", above=0.0)
    above_baseline: float = parameter(1.05, "Share of the baseline up to which the loss is at it.", above=1.0)
    least_steps: int = parameter(200, "Steps the loss must have stood there.", at_least=1)
    window: int = parameter(10, "Recorded losses whose median is taken.", at_least=1)
    patience: int = parameter(3, "Medians in a row that must show the fault before a finding opens.", at_least=1)
    recovery: int = parameter(5, "Medians in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (_LOSSES, _TARGETS)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is Mode.EVAL and not view.step.has_rivals:
            yield from self._evaluated(view, memory)
            return
        note_predictions(view, memory)
        level = follow(view, memory, self.window, self.least_steps)
        if isinstance(level, Unjudged):
            yield level
            return
        if are_unrelated(memory, level.key.path) and self._mean_is_at_chance(level):
            memory["at_chance"] = True
            yield self._unrelated(view, memory, level)
            return
        if level.is_noisy:
            yield NOISY
            return
        fall, baseline = level.fall, level.baseline
        memory["at_chance"] = self.near_baseline * baseline <= fall.now <= self.above_baseline * baseline
        if not memory["at_chance"]:
            return
        if fall.before - fall.now >= _STILL_FALLS * baseline:
            yield Unjudged("the loss is near its baseline, and falls")
            return
        yield Symptom(
            message=f"The loss stands at {fall.now:.4g}, and {baseline:.4g} is what one answer for all inputs would "
                    f"lose: after {view.step.number - level.begun} steps the model has learnt nothing of its inputs.",
            remedy=_ON_ONE_BATCH,
            evidence=(Evidence(level.key, view.step.number, "median_loss", fall.now, self.near_baseline * baseline,
                               f"{percent(fall.now / baseline)} of the baseline"),),
            since=fall.since, causes=_behind_standing_at_chance(memory, fall.now, baseline),
        )


    def _mean_is_at_chance(self, level: Level) -> bool:
        """Return whether the mean of the last two thirds of the losses is at the baseline, and rests: means of many
        losses are known better than medians of ten."""
        values, baseline = [point.value for point in level.late], level.baseline
        half = len(values) // 2
        error = level.noise / math.sqrt(len(values))
        fall = fmean(values[:half]) - fmean(values[half:]) if half else 0.0
        # Two standard errors within what `near_baseline` leaves: the mean is not by chance where it is.
        return (2 * error <= (1 - self.near_baseline) * baseline
                and self.near_baseline * baseline <= fmean(values) <= self.above_baseline * baseline
                and fall < max(_STILL_FALLS * baseline, 2 * error))

    @staticmethod
    def _unrelated(view: StepView, memory: Memory, level: Level) -> Symptom:
        now, baseline = fmean(point.value for point in level.late), level.baseline
        return Symptom(
            message=f"The loss stands at {now:.4g} on average since step {level.late[0].first}, {baseline:.4g} is what "
                    "one answer for all inputs would lose, and the answers have nothing to do with the labels: the "
                    "model has learnt nothing of its inputs.",
            remedy=_ON_ONE_BATCH,
            evidence=(Evidence(level.key, view.step.number, "mean_loss", now, baseline,
                               f"{percent(now / baseline)} of the baseline"),),
            since=level.late[0].first, causes=_behind_standing_at_chance(memory, now, baseline),
        )

    def _evaluated(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = plain_loss(view)
        baseline = baseline_of(found[0].path, memory) if found is not None else None
        if memory.get("at_chance"):
            yield Unjudged("the training loss itself is at its baseline")
            return
        if found is None or baseline is None or memory.get("loss") != found[0].path:
            yield Unjudged("no evaluation was recorded whose baseline is known from training")
            return
        losses: list[list[float]] = memory.setdefault("evaluated", [])
        losses.append([view.step.number, found[1]])
        del losses[:-_MOST_EVALUATIONS]
        since = memory.get("peak_step", 0)
        judged = [item for item in losses if item[0] >= since]
        if len(judged) < _LEAST_EVALUATIONS or judged[-1][0] - judged[0][0] < self.least_steps:
            yield Unjudged(f"{len(judged)} evaluations so far; it takes {_LEAST_EVALUATIONS} over {self.least_steps} "
                           "steps")
            return
        values = [value for _, value in judged]
        at_baseline = all(self.near_baseline * baseline <= value <= self.above_baseline * baseline for value in values)
        if not at_baseline or values[0] - values[-1] >= _STILL_FALLS * baseline:
            return
        now, first = values[-1], int(judged[0][0])
        yield Symptom(
            message=f"The validation loss stands at {now:.4g} from step {first} on, and {baseline:.4g} is what one "
                    "answer for all inputs would lose: the model has learnt nothing that holds for samples it has "
                    "not seen.",
            remedy="See that labels belong to their inputs, in training and in validation; train on one batch alone, "
                   "with learning rates ten times as large and ten times as small.",
            evidence=(Evidence(found[0], view.step.number, "validation_loss", now, self.near_baseline * baseline,
                               f"{percent(now / baseline)} of the baseline in {len(values)} evaluations"),),
            since=first, causes=_behind_standing_at_chance(memory, now, baseline),
        )


_ON_ONE_BATCH = (
    "Train on one batch alone. If the loss does not fall to zero there, look at the learning rate, at what cuts the "
    "graph, and at what the loss is handed; if it does, look at whether labels belong to their inputs.")
_STILL_FALLS = 0.01
_MOST_EVALUATIONS, _LEAST_EVALUATIONS = 12, 4
_MOSTLY_FROZEN = 0.5


def _behind_standing_at_chance(memory: Mapping[str, Any], now: float, baseline: float) -> tuple[Suspicion, ...]:
    usual = goes_at_a_usual_pace(memory)
    found = [
        *pace_suspicions(memory),
        Suspicion(
            Cause.LABELS_UNRELATED, 0.5 if usual else 0.3,
            f"the loss stands at {now:.4g}, what one answer for all inputs would lose ({baseline:.4g})"
            + (", although the weights move at a usual pace" if usual else ""),
            "See that each label belongs to its input: shuffle both with one permutation, and look at a few pairs.",
        ),
        Suspicion(Cause.DETACHED_GRAPH, 0.1, "a usual suspect"),
        Suspicion(Cause.SOFTMAX_TWICE, 0.1, "a usual suspect"),
        Suspicion(Cause.VANISHING_GRADIENT, 0.1, "a usual suspect"),
        Suspicion(Cause.WEIGHT_DECAY_TOO_LARGE, 0.1, "a usual suspect"),
    ]
    frozen = memory.get("frozen", 0.0)
    if frozen >= _MOSTLY_FROZEN:
        found.append(Suspicion(Cause.FROZEN_PARAMETER, 0.4, f"{percent(frozen)} of the parameters are frozen",
                               "Let the layers that should learn be trained (requires_grad; trainable in Keras)."))
    return by_weight(found)

