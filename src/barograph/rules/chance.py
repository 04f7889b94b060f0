"""Rules that compare the loss with chance: the loss of a model that ignores its inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

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
from barograph.rules.explosion import suspect_explosion
from barograph.rules.predictions import are_unrelated, note_predictions
from barograph.rules.standing import NOISY, Level, follow
from barograph.rules.words import SCALE_INPUTS, UNFREEZE, number, percent
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_LOSSES = Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=_IN_TRAINING))
_TARGETS = Selection(
    kinds=frozenset({Kind.LABEL, Kind.TARGET, Kind.CONFUSION}),
    schedule=Schedule(every=20, steps=frozenset(range(0, 10, 2)), modes=_IN_TRAINING),
)


@dataclass(frozen=True, kw_only=True)
class Plateau(Rule):
    """L106: The loss fell a little and is now flat, hardly better than a constant prediction.

    What it sees: the training loss, if a single known loss function is minimized, beside its baseline: the entropy of
      the labels, or the variance of the targets (see L108). A plateau is a loss that fell from its start, has since
      been flat (within 0.5% of the baseline) for `least_steps` and for half of the training, and lies between
      `near_baseline` of the baseline and the range of L108.
    Why it matters: so near the baseline the model has hardly used its inputs; more steps will not help.
    What to do: check labels and inputs first; then try learning rates 10 times higher and 10 times lower.
    When it is wrong: tasks that are that hard. A loss that is flat farther down may have converged and is not reported:
      no number distinguishes a good minimum from a bad one.
    Source: Karpathy, "A Recipe for Training Neural Networks", 2019: compare with an input-independent baseline.
    """

    code: ClassVar[str] = "L106"
    name: ClassVar[str] = "plateau"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    near_baseline: float = parameter(
        0.9, "Share of the baseline above which a plateau is reported.", at_least=0.0, below=1.0,
    )
    least_steps: int = parameter(500, "Steps for which the loss must have been flat.", at_least=1)
    window: int = parameter(10, "Recorded losses per median.", at_least=1)
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
                message=f"The loss has been flat at {now:.4g} since step {since} or earlier, "
                        f"{percent(now / baseline)} of "
                        f"the loss of a constant prediction ({baseline:.4g}).",
                remedy="Check that labels belong to their inputs and that inputs differ; then train on one batch with "
                       "learning rates 10 times higher and 10 times lower.",
                evidence=(Evidence(level.key, view.step.number, "median_loss", now, self.near_baseline * baseline,
                                   f"fell by {number(rested.before - rested.now)} in the second half of the training"),
                          ),
                since=since, causes=_behind_standing_at_chance(memory, now, baseline),
            )


_UNDERFIT, _FELL, _RESTS = 0.97, 0.05, 0.005


@dataclass(frozen=True, kw_only=True)
class WrongChance(Rule):
    """L107: The first loss is far above that of an untrained model.

    What it sees: the loss of the first step, if a single loss function over classes is minimized, and the number of
      classes C. A model that predicts all classes alike has a loss of ln C. The first loss is wrong if it is `factor`
      times that, and 4 above it. A loss below ln C is fine: pretrained models start there.
    Why it matters: the model starts out confident and wrong. The first hundred steps undo that, and large outputs bring
      large gradients with them.
    What to do: initialize the last layer's weights at a tenth of their usual scale and its biases to 0; scale inputs to
      zero mean and unit variance; normalize before the last layer.
    When it is wrong: a pretrained model whose classes have changed; an embedding that serves as the last layer and
      starts with unit variance, from which training recovers soon.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). Digits with pixels from 0 to 255 start at 12.7 instead of 2.3 and are found.
    Source: Karpathy, "A Recipe for Training Neural Networks", 2019: "verify loss at init".
    """

    code: ClassVar[str] = "L107"
    name: ClassVar[str] = "wrong-chance"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    factor: float = parameter(FAR_FROM_CHANCE, "Multiple of ln C above which the first loss is wrong.", above=1.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        first = Schedule(every=0, steps=frozenset({0}), modes=_IN_TRAINING)
        return (
            Selection(kinds=frozenset({Kind.LOSS}), schedule=first),
            Selection(kinds=frozenset({Kind.FACT}), include=(f"{Fact.CLASSES.value}*",), schedule=first),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.number != 0 or view.step.mode is not Mode.TRAIN:
            # No later step says anything about the first one, so its finding stays.
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
            message=f"The first loss is {number(loss)}; an untrained model should start near ln {int(classes)} = "
                    f"{number(chance)} for {int(classes)} classes.",
            remedy="Initialize the last layer's weights at a tenth of their usual scale and its biases to 0, and scale "
                   "the inputs to zero mean and unit variance.",
            evidence=(Evidence(key, view.step.number, "loss", loss, limit, f"ln C is {number(chance)}"),),
            causes=by_weight([
                Suspicion(Cause.INITIALIZATION_SCALE, 0.5, f"the first loss is {number(loss / chance)} times ln C"),
                Suspicion(Cause.INPUT_NOT_NORMALIZED,
                          0.7 if reach > _RAW_INPUT else 0.55 if reach > _FAR_INPUT else 0.15,
                          f"inputs reach {number(reach)}" if reach > _FAR_INPUT else "a usual suspect", SCALE_INPUTS),
                Suspicion(Cause.LABELS_OFF_BY_ONE, 0.1, "a pretrained model may number its classes differently"),
            ]),
        )


_LEAST_EXCESS = 4.0
_FAR_INPUT = 30.0
_RAW_INPUT = 300.0
"""Beyond the values of pixels, which many models normalize themselves."""


@dataclass(frozen=True, kw_only=True)
class Underfit(Rule):
    """L108: The training loss stays at that of a constant prediction.

    What it sees: the training loss, if a single known loss function is minimized, beside its baseline: the entropy of
      the labels for losses over classes, the variance of the targets for the mean squared error, gathered from the
      steps that recorded them. The model underfits if the last third of the losses lies between `near_baseline` and
      `above_baseline` times the baseline, over at least `least_steps` steps since the learning rate last rose, and
      falls by less than a hundredth of the baseline. If single losses are too noisy for that, or the first third still
      fell to the baseline, the mean of the last two thirds is used, provided that the last predictions for 200 labels
      or more are unrelated to them (χ² of the counts). Losses of four or more evaluations at the baseline, over as many
      steps, count too; if the training loss falls slowly, only if it fell by a hundredth of the baseline meanwhile. A
      finding closes once evaluations are below `near_baseline` times the baseline; without evaluations, once the
      training loss is below 0.9 times it, since any model slowly memorizes its samples.
    Why it matters: the model has learned the frequency of each target and nothing from its inputs.
    What to do: if the loss exploded before, lower the learning rate. Otherwise train on one batch. If the loss does
      not fall to zero, the fault is in the loss, the graph or the learning rate; if it does, check labels and inputs.
    When it is wrong: tasks that are that hard (stock returns, coin tosses); models that stay at chance for hundreds of
      steps before they learn; losses weighted by class, whose baseline differs (if by more than `above_baseline`,
      nothing is reported). Trainings with several optimizers are not judged.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). Shuffled labels and learning rates of 1e-4 (SGD) and 1e-6 (Adam) are found at step 229; under the
      default budget, where so small a training records few losses, from its evaluations at step 286.
    Source: Karpathy, "A Recipe for Training Neural Networks", 2019: compare with an input-independent baseline.
    """

    code: ClassVar[str] = "L108"
    name: ClassVar[str] = "underfit"
    severity: ClassVar[Severity] = Severity.COSTLY

    near_baseline: float = parameter(_UNDERFIT, "Lower limit of a loss at the baseline, as a multiple of "
                                                "it.", above=0.0)
    above_baseline: float = parameter(1.05, "Upper limit of a loss at the baseline, as a multiple of it.", above=1.0)
    least_steps: int = parameter(200, "Steps for which the loss must have been there.", at_least=1)
    window: int = parameter(10, "Recorded losses per median.", at_least=1)
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
            memory["at_chance"] = memory["found"] = True
            memory["falls"] = 0.0
            yield self._unrelated(view, memory, level)
            return
        if level.is_noisy:
            yield NOISY
            return
        fall, baseline = level.fall, level.baseline
        memory["at_chance"] = self.near_baseline * baseline <= fall.now <= self.above_baseline * baseline
        if not memory["at_chance"]:
            if memory.get("found") and not self._has_learned(memory, level):
                yield Unjudged("the model memorizes, but has learned nothing that generalizes")
            return
        # A model that memorizes falls slowly: its evaluations tell whether it learns.
        still_falls = fall.before - fall.now >= _STILL_FALLS * baseline
        memory["falls"] = (fall.before - fall.now) / fall.steps if still_falls else 0.0
        if still_falls:
            yield Unjudged("the loss is near its baseline, but falling")
            return
        memory["found"] = True
        yield Symptom(
            message=f"The loss is {fall.now:.4g} after {view.step.number - level.begun} steps; always predicting the "
                    "same "
                    f"gives {baseline:.4g}: the model has learned nothing from its inputs.",
            remedy=_ON_ONE_BATCH,
            evidence=(Evidence(level.key, view.step.number, "median_loss", fall.now, self.near_baseline * baseline,
                               f"{percent(fall.now / baseline)} of the baseline"),),
            since=fall.since, causes=_behind_standing_at_chance(memory, fall.now, baseline),
        )

    def _has_learned(self, memory: Memory, level: Level) -> bool:
        """Return whether a model that was at chance has learned since, rather than memorized a few samples."""
        since = level.late[len(level.late) // 2].first
        recent = [value for step, value in memory.get("evaluated", ()) if step >= since]
        if recent:
            return bool(recent[-1] < self.near_baseline * level.baseline)
        return level.fall.now < _CLEARLY_BELOW * level.baseline

    def _mean_is_at_chance(self, level: Level) -> bool:
        """Return whether the mean of the last two thirds of the losses is at the baseline and flat.

        The mean of many losses has less noise than medians of ten."""
        values, baseline = [point.value for point in level.late], level.baseline
        half = len(values) // 2
        error = level.noise / math.sqrt(len(values))
        fall = fmean(values[:half]) - fmean(values[half:]) if half else 0.0
        # Two standard errors fit into what `near_baseline` allows: the mean is not there by chance.
        return (2 * error <= (1 - self.near_baseline) * baseline
                and self.near_baseline * baseline <= fmean(values) <= self.above_baseline * baseline
                and fall < max(_STILL_FALLS * baseline, 2 * error))

    @staticmethod
    def _unrelated(view: StepView, memory: Memory, level: Level) -> Symptom:
        now, baseline = fmean(point.value for point in level.late), level.baseline
        return Symptom(
            message=f"The loss averages {now:.4g} since step {level.late[0].first}; always predicting the same gives "
                    f"{baseline:.4g}. Predictions are unrelated to labels: the model has learned nothing from its "
                    "inputs.",
            remedy=_ON_ONE_BATCH,
            evidence=(Evidence(level.key, view.step.number, "mean_loss", now, baseline,
                               f"{percent(now / baseline)} of the baseline"),),
            since=level.late[0].first, causes=_behind_standing_at_chance(memory, now, baseline),
        )

    def _evaluated(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = plain_loss(view)
        baseline = baseline_of(found[0].path, memory) if found is not None else None
        if memory.get("at_chance") and not memory.get("falls"):
            yield Unjudged("the training loss itself is at its baseline")
            return
        if found is None or baseline is None or memory.get("loss") != found[0].path:
            yield Unjudged("no evaluation was recorded with a baseline known from training")
            return
        losses: list[list[float]] = memory.setdefault("evaluated", [])
        losses.append([view.step.number, found[1]])
        del losses[:-_MOST_EVALUATIONS]
        since = memory.get("peak_step", 0)
        judged = [item for item in losses if item[0] >= since]
        if len(judged) < _LEAST_EVALUATIONS or judged[-1][0] - judged[0][0] < self.least_steps:
            yield Unjudged(f"{len(judged)} evaluations so far; needs {_LEAST_EVALUATIONS} over {self.least_steps} "
                           "steps")
            return
        trained = memory.get("falls", 0.0) * (judged[-1][0] - judged[0][0])
        if memory.get("at_chance") and trained < _STILL_FALLS * baseline:
            yield Unjudged("the training loss hardly fell over the last evaluations either")
            return
        values = [value for _, value in judged]
        at_baseline = all(self.near_baseline * baseline <= value <= self.above_baseline * baseline for value in values)
        if not at_baseline or values[0] - values[-1] >= _STILL_FALLS * baseline:
            if memory.get("evaluations_found") and values[-1] >= self.near_baseline * baseline:
                yield Unjudged("the evaluations are no better than a constant prediction")
            return
        memory["evaluations_found"] = True
        now, first = values[-1], int(judged[0][0])
        yield Symptom(
            message=f"The validation loss has been {now:.4g} since step {first}; always predicting the same gives "
                    f"{baseline:.4g}: the model has learned nothing that generalizes.",
            remedy="Check that labels belong to their inputs, in training and in validation; train on one batch with "
                   "learning rates 10 times higher and 10 times lower.",
            evidence=(Evidence(found[0], view.step.number, "validation_loss", now, self.near_baseline * baseline,
                               f"{percent(now / baseline)} of the baseline in {len(values)} evaluations"),),
            since=first, causes=_behind_standing_at_chance(memory, now, baseline, "validation loss"),
        )


_ON_ONE_BATCH = (
    "Train on one batch. If the loss does not fall to zero, check the learning rate, the graph (detach, no_grad) and "
    "the arguments of the loss; if it does, check that labels belong to their inputs.")
_STILL_FALLS = 0.01
_CLEARLY_BELOW = 0.9
_MOST_EVALUATIONS, _LEAST_EVALUATIONS = 12, 4
_MOSTLY_FROZEN = 0.5


def _behind_standing_at_chance(
    memory: Memory, now: float, baseline: float, name: str = "loss"
) -> tuple[Suspicion, ...]:
    usual, exploded = goes_at_a_usual_pace(memory), suspect_explosion(memory)
    found = [
        *([exploded] if exploded else []),
        *pace_suspicions(memory),
        Suspicion(
            Cause.LABELS_UNRELATED, 0.5 if usual else 0.3,
            f"the {name} is {now:.4g}, that of a constant prediction is {baseline:.4g}"
            + (", although the updates have a usual size" if usual else ""),
            "Check a few pairs: does each label belong to its input? Shuffle both with one permutation.",
        ),
        Suspicion(Cause.DETACHED_GRAPH, 0.1, "a usual suspect"),
        Suspicion(Cause.SOFTMAX_TWICE, 0.1, "a usual suspect"),
        Suspicion(Cause.VANISHING_GRADIENT, 0.1, "a usual suspect"),
        Suspicion(Cause.WEIGHT_DECAY_TOO_LARGE, 0.1, "a usual suspect"),
    ]
    frozen = memory.get("frozen", 0.0)
    if frozen >= _MOSTLY_FROZEN:
        found.append(Suspicion(Cause.FROZEN_PARAMETER, 0.4, f"{percent(frozen)} of the parameters are frozen",
                               UNFREEZE))
    return by_weight(found)

