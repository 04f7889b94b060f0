"""Rules about the loss, in training and in evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.baseline import CLASS_LOSSES, baseline_of, note_targets, plain_loss, targets_stand
from barograph.rules.clues import (
    by_weight,
    confusions_of,
    fact_value,
    goes_at_a_usual_pace,
    note_pace,
    pace_suspicions,
)
from barograph.rules.columns import learning_rate, stated_loss
from barograph.rules.course import (
    Fall,
    Point,
    course_of,
    course_since,
    deepest_fall,
    extend,
    fall_of,
    noise_of,
    point_of,
    scatter,
)
from barograph.rules.predictions import are_guesses
from barograph.rules.suspects import momentum_in, remember_facts
from barograph.rules.words import UNFREEZE, lower_rate, number, percent, sentence
from barograph.runs.reading.view import StepView

_LOSS = frozenset({Kind.LOSS})
_MOST_POINTS = 200


@dataclass(frozen=True, kw_only=True)
class LossNotDecreasing(Rule):
    """L101: The training loss does not fall, or rises again.

    What it sees: the median loss of each `window` recorded steps. Between the first and the last third of these
      medians, the loss should fall by `diff_percent` per `num_steps` steps, until it has fallen by `settled_percent`
      from its start. After that it may stay level, because it may have converged. A standstill is reported only if the
      fall is short by three times its noise, so noisy losses are evaluated later (with 1% noise between batches after
      about 400 steps, with 5% after 1,200), and a slow fall below its noise is not called a standstill. Steps with a
      rising learning rate do not count. At any time, the loss should stay within `increase_threshold_percent` of its
      best median (in percent of that or of the total gain, whichever is larger, plus six times its noise), or below the
      largest losses near that median. A rise is reported only if the minimized loss is a single PyTorch loss function:
      over classes, or over distances to targets that have not grown. A custom loss (a policy gradient, for example) may
      rise by design.
    Why it matters: a model that does not learn costs as much as one that does.
    What to do: overfit one batch first. If that works, change the learning rate. If not, check the labels, the loss and
      the parameters passed to the optimizer. If the loss rises after a fall, lower the learning rate.
    When it is wrong: adversarial training, where no loss need fall (runs with several optimizers are not checked); a
      pretrained model; a curriculum that gets harder; learning rate restarts; models that stay on a plateau for long
      before they learn.
    Tested on: silent on all 145 healthy trainings, including batches of 4 and 5,000 steps of a converged model (on 105
      of them also with every seventh step), and on 160 simulated losses that fall by 4 to 15% in 1,000 steps below 2 to
      20% noise; comparing one median with the next would report half of these. Shuffled labels, learning rates of 1e-6
      (SGD) and 1e-8 (Adam), chains of sigmoids, dead layers and softmax applied twice fire between steps 79 and 470; a
      learning rate raised 80 times fires 29 steps later.
    Source: Amazon SageMaker Debugger's LossNotDecreasing, which compares single losses and so alarms on noise. Its
      documented numbers apply with `window` 1, which treats the first five losses as noise-free.
    """

    code: ClassVar[str] = "L101"
    name: ClassVar[str] = "loss-not-decreasing"
    severity: ClassVar[Severity] = Severity.COSTLY

    num_steps: int = parameter(
        50, "Steps in which the loss must fall by `diff_percent`; the shortest span compared.", at_least=1,
    )
    diff_percent: float = parameter(0.1, "Least fall in `num_steps` steps, in percent.", at_least=0.0, below=100.0)
    increase_threshold_percent: float = parameter(
        5.0, "Allowed rise above the best median, in percent.", at_least=0.0,
    )
    settled_percent: float = parameter(
        5.0, "Fall from the first median after which the loss may stay level, in percent.", at_least=0.0, below=100.0,
    )
    window: int = parameter(10, "Recorded losses per median.", at_least=1)
    patience: int = parameter(3, "Medians in a row that must show the fault before a finding opens.", at_least=1)
    recovery: int = parameter(10, "Medians in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=_LOSS, schedule=Schedule(modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = stated_loss(view)
        if found is None or view.step.mode is not Mode.TRAIN or not math.isfinite(found[1]):
            yield Unjudged("no finite training loss was recorded")
            return
        if view.step.has_rivals:
            yield Unjudged("the run has several optimizers, as in adversarial training, where a loss need not fall")
            return
        key, loss = found
        if memory.get("key") != str(key) or "points" not in memory:
            memory.clear()
            memory.update(key=str(key), losses=[], points=[])
        if _begins_a_phase(view, memory):
            memory.update(losses=[], points=[], course=[], waiting=[], stride=1)
            for name in ("settled", "peak_rate", "peak_step", "window_since"):
                memory.pop(name, None)
        _follow_rate(view, memory)
        clues = memory.setdefault("clues", {})
        note_targets(view, clues)
        note_pace(view, clues)
        remember_facts(view, clues, Fact.MOMENTUM)
        point = self._taken(view.step.number, loss, memory)
        points: list[Any] = memory["points"]
        if point is None or not points or view.step.number - points[0][_LAST] < self.num_steps:
            yield Unjudged(f"needs losses over {self.num_steps} steps and {self.window} more",
                           passing=point is None)
            return
        symptom = self._rise(view, key, point, points, clues)
        if symptom is None:
            yield from self._standstill(view, key, memory)
        elif _may_rise(view, clues):
            yield Unjudged("the script computes its own loss, which may rise by design")
        else:
            yield symptom

    def _taken(self, step: int, loss: float, memory: Memory) -> Point | None:
        """Add a loss; return the median that it completes, or None."""
        memory.setdefault("window_since", step)
        memory["losses"].append(loss)
        if len(memory["losses"]) < self.window:
            return None
        point, top = point_of(memory.pop("window_since"), step, memory["losses"]), max(memory["losses"])
        memory["losses"] = []
        extend(memory, point)
        # Keep the first point, where the loss started, and the best.
        points = memory["points"]
        points.append([*point, top])
        if len(points) > _MOST_POINTS:
            best = min(range(len(points)), key=lambda index: float(points[index][_VALUE]))
            del points[2 if best == 1 else 1]
        return point

    def _rise(
        self, view: StepView, key: Key, now: Point, points: list[Any], clues: Mapping[str, Any]
    ) -> Symptom | None:
        past = [item for item in points if item[_LAST] <= view.step.number - self.num_steps]
        at = min(range(len(past)), key=lambda index: float(past[index][_VALUE]))
        least = past[at]
        step, best = int(least[_LAST]), float(least[_VALUE])
        noise = noise_of([Point(*item[:_TOP]) for item in points[-_SCATTER_OVER:]])
        share = self.increase_threshold_percent / 100
        momentum = momentum_in(clues.get("facts", {}))
        # Oscillation from heavy momentum is not noise.
        noises = _NOISES_OF_RISE if momentum < _HEAVY_MOMENTUM else 1.0
        limit = best + share * max(abs(best), points[0][_VALUE] - best) + noises * noise
        # Single samples may cost nearly nothing or a lot: such medians jump to what other losses always were.
        usual = median(item[_TOP] for item in past[max(at - _NEAR, 0):at + _NEAR + 1])
        if now.value <= max(limit, usual):
            return None
        beside = f" (noise of these medians: {number(noise)})" if noise else ""
        text = f"median of the last {self.window} recorded losses; {number(best)} at step {step}"
        return Symptom(
            message=f"The loss rose to {number(now.value)}, from {number(best)} at step {step}{beside}.",
            remedy=f"{sentence(lower_rate(learning_rate(view), 3))}, or decay it with a schedule; resume from the "
                   f"checkpoint of step {step} if you have one.",
            evidence=(Evidence(key, view.step.number, "median_loss", now.value, limit, text),),
            subject="rises", since=now.first,
            causes=by_weight([
                Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.4, f"the loss rose from {number(best)} to "
                          f"{number(now.value)} after it had fallen"),
                Suspicion(Cause.MOMENTUM_WRONG, 0.8, f"with momentum {number(momentum)} each gradient acts "
                          f"for {number(1 / (1 - momentum))} steps, and the loss oscillates",
                          "Lower the momentum to 0.9.") if _HEAVY_MOMENTUM <= momentum < 1 else
                Suspicion(Cause.NO_GRADIENT_CLIPPING, 0.1, "a common cause"),
                *([Suspicion(Cause.FROZEN_PARAMETER, 0.5, f"{percent(clues['frozen'])} of the parameters are frozen",
                             UNFREEZE)]
                  if clues.get("frozen", 0.0) >= _MOSTLY_FROZEN else ()),
                *(item for item in pace_suspicions(clues) if item.cause == Cause.LEARNING_RATE_TOO_HIGH),
            ]),
        )

    def _standstill(self, view: StepView, key: Key, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if memory.get("settled"):
            return
        whole = course_of(memory)
        since = course_since(whole, memory.get("peak_step", 0))
        noise = noise_of(whole)
        enough = self.settled_percent / 100 * abs(whole[0].value)
        memory["settled"] = deepest_fall(whole, noise=noise, unit=enough) >= enough
        if memory["settled"]:
            return
        # A window of 1 asks for single losses, so evaluate the first few, whose noise is unknown.
        if self.window > 1 and len(since) < _LEAST_POINTS:
            yield Unjudged(f"needs {_LEAST_POINTS} medians of {self.window} losses since the learning rate last rose; "
                           f"this run has {len(since)}")
            return
        fall = fall_of(since, noise=noise)
        if fall is not None and fall.now - fall.before > _NOISES_OF_FALL * fall.noise > 0 and plain_loss(view) is None:
            yield Unjudged("the script computes its own loss, which may rise by design")
            return
        yield from self._compared(view, key, fall, whole[0].value, memory["clues"])

    def _compared(
        self, view: StepView, key: Key, fall: Fall | None, first: float, clues: Mapping[str, Any]
    ) -> Iterable[Symptom | Unjudged]:
        if fall is None:
            yield Unjudged("the learning rate rises, or rose until recently")
            return
        least = self.diff_percent / 100 * abs(fall.before) * fall.steps / self.num_steps
        short_by = least - (fall.before - fall.now)
        if abs(short_by) < _NOISES_OF_FALL * fall.noise:
            yield Unjudged("the loss is too noisy to tell whether it falls")
            return
        if short_by < 0:
            return
        text = f"loss {number(fall.now)} over the last third since step {fall.since}, {number(fall.before)} before"
        yield Symptom(
            # Three figures would show two equal numbers, or a fall where there is none to speak of.
            message=f"The loss does not fall: {fall.now:.4g} now, {fall.before:.4g} about {round(fall.steps)} steps "
                    f"ago (expected: below {fall.before - least:.4g}), {first:.4g} at the start.",
            remedy=_against_standing_loss(view),
            evidence=(Evidence(key, view.step.number, "median_loss", fall.now, fall.before - least, text),),
            subject="does not fall", since=fall.since, causes=_behind_standstill(view, fall, clues),
        )


_LAST, _VALUE, _TOP = Point._fields.index("last"), Point._fields.index("value"), len(Point._fields)
_NEAR = 3
_SCATTER_OVER = 21
_NOISES_OF_RISE = 6.0
_HEAVY_MOMENTUM = 0.99
"""Of the least of a few hundred medians three are luck."""
_NOISES_OF_FALL = 3.0
_LEAST_POINTS = 6


def _begins_a_phase(view: StepView, memory: Memory) -> bool:
    """Return whether a new optimizer starts a phase, as in fine-tuning. Repeated recreation starts none."""
    made = fact_value(view, Fact.OPTIMIZERS_MADE)
    if made is None:
        return False
    before = int(memory.get("optimizers", made))
    memory["optimizers"] = made
    return bool(before < made <= _MOST_PHASES)


_MOST_PHASES = 5


def _follow_rate(view: StepView, memory: Memory) -> None:
    """Remember the step of the peak learning rate: during warm-up the loss need not fall."""
    rate = learning_rate(view)
    if rate is not None and rate > memory.get("peak_rate", 0.0):
        memory["peak_rate"], memory["peak_step"] = rate, view.step.number


def _may_rise(view: StepView, clues: Mapping[str, Any]) -> bool:
    found = plain_loss(view)
    return found is None or not (found[0].path in CLASS_LOSSES or targets_stand(found[0].path, clues))


def _behind_standstill(view: StepView, fall: Fall, clues: Mapping[str, Any]) -> tuple[Suspicion, ...]:
    found = plain_loss(view)
    loss = found[0].path if found else ""
    baseline = baseline_of(loss, clues)
    usual = [Suspicion(cause, 0.1, "a common cause")
             for cause in (Cause.LABELS_UNRELATED, Cause.DETACHED_GRAPH, Cause.SOFTMAX_TWICE,
                           Cause.WEIGHT_DECAY_TOO_LARGE)]
    seen = pace_suspicions(clues)
    if baseline is not None and abs(fall.now - baseline) < _AT_BASELINE * baseline:
        learns = goes_at_a_usual_pace(clues)
        seen.append(Suspicion(
            Cause.LABELS_UNRELATED, 0.45 if learns else 0.25,
            f"loss {fall.now:.4g} ≈ {baseline:.4g}, the loss of one constant prediction for all inputs"
            + (", although the weights change at a normal rate" if learns else ""),
            "Check that each label belongs to its input: shuffle both the same way; inspect a few pairs.",
        ))
    if fall.noise > _WILD * abs(fall.now):
        seen.append(Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.3, "the loss oscillates strongly and does not fall"))
    if clues.get("frozen", 0.0) >= _MOSTLY_FROZEN:
        seen.append(Suspicion(Cause.FROZEN_PARAMETER, 0.3, f"{percent(clues['frozen'])} of the parameters are frozen",
                              UNFREEZE))
    return by_weight([*seen, *usual])


_AT_BASELINE, _WILD, _MOSTLY_FROZEN = 0.03, 0.1, 0.5


def _against_standing_loss(view: StepView) -> str:
    rate = learning_rate(view)
    rates = ("ten times as large and ten times as small" if rate is None
             else f"{number(rate * 10)} and {number(rate / 10)} as well as {number(rate)}")
    return (f"Train on a single batch, with learning rates {rates}. If the model cannot fit it, check the loss "
            "(softmax "
            "applied twice?), the labels and the optimizer (gradients reset? this model's parameters?). If it can, "
            "change the learning rate.")


@dataclass(frozen=True, kw_only=True)
class Overfit(Rule):
    """L102: The validation loss rises while the training loss keeps falling, or is never better than chance.

    What it sees: at each evaluation, the mean validation loss and the median training loss since the previous
      evaluation, from the same loss function. The rule fires if (validation - training) / training exceeds
      `ratio_threshold`, validation exceeds its best by `rise_threshold` plus three times its noise (the robust spread
      of its changes between evaluations; before the seventh evaluation, by twice `rise_threshold`), and training is no
      higher than at that best. For a loss over classes, it also fires if all evaluations were worse than a constant
      prediction and no more predictions are correct than by chance (of at least 100), while training is below half the
      loss of a constant prediction.
    Why it matters: after the best evaluation, further training makes the model worse at its task.
    What to do: stop, and use the weights of the best evaluation. Next time: more data or augmentation, dropout, weight
      decay, a smaller model, early stopping. If no evaluation was better than a constant prediction, compare how
      training and evaluation pair inputs with labels, number classes and scale inputs.
    When it is wrong: validation sets so small that their loss fluctuates; label noise, where accuracy may improve while
      the loss rises. If a script evaluates training and validation data in one pause, each pass over one of them is an
      evaluation of its own, as in `estimate_loss` of nanoGPT. Barograph takes them for one, with the mean of both, only
      if they share loader and line of code and no variable names the data: put `with run.mode("predict"):` around the
      pass over the training data then.
    Tested on: silent on the healthy trainings except one, trained for 180 epochs, whose validation loss rises by 30%
      from its best while accuracy stays: it fires there after 130 epochs. 200 samples with random labels fire within
      350 steps, 40 samples with true labels within 800.
    Source: Prechelt, "Early stopping – but when?", 1998; Amazon SageMaker Debugger's Overfit, whose ratio alone calls
      every well-trained model overfitted.
    """

    code: ClassVar[str] = "L102"
    name: ClassVar[str] = "overfit"
    severity: ClassVar[Severity] = Severity.COSTLY

    ratio_threshold: float = parameter(0.1, "Share by which validation must exceed training.", above=0.0)
    rise_threshold: float = parameter(0.25, "Share by which validation must exceed its own best.", at_least=0.0)
    patience: int = parameter(3, "Evaluations in a row that must show the fault before a finding opens.", at_least=1)
    recovery: int = parameter(2, "Evaluations in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return tuple(
            Selection(kinds=_LOSS, schedule=Schedule(modes=frozenset({mode}))) for mode in (Mode.TRAIN, Mode.EVAL)
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        clues = memory.setdefault("clues", {})
        if view.step.mode is Mode.EVAL:
            # By its own labels: training may have been given them in another balance.
            note_targets(view, clues)
        losses = {key.path: value for key, value in view.scalars(Kind.LOSS).items() if math.isfinite(value)}
        trained: dict[str, list[float]] = memory.setdefault("trained", {})
        if view.step.mode is Mode.TRAIN:
            for name, value in losses.items():
                trained.setdefault(name, []).append(value)
                del trained[name][:-_MOST_TRAINED]
            yield Unjudged("no evaluation was recorded after training")
            return
        path = _common(losses, trained)
        if view.step.mode is not Mode.EVAL or path is None:
            yield Unjudged("training and evaluation recorded no common loss")
            return
        training, validation = float(median(trained[path])), losses[path]
        trained.clear()
        best: dict[str, Any] = memory.setdefault(path, {})
        baseline = baseline_of(path, clues)
        symptom = (self._compared(view, path, training, validation, best, baseline)
                   or self._guessed(view, path, training, validation, best, baseline))
        if symptom is not None:
            best["rose"] = True
            yield symptom
        elif len(best["validations"]) <= self.patience and "rose" not in best:
            yield Unjudged(f"needs {self.patience + 1} evaluations; this run has {len(best['validations'])}")

    def _compared(
        self, view: StepView, path: str, training: float, validation: float, best: dict[str, Any],
        baseline: float | None,
    ) -> Symptom | None:
        history: list[float] = best.setdefault("validations", [])
        history.append(validation)
        del history[:-_NOISE_OVER]
        if validation <= best.get("validation", math.inf):
            best.update(validation=validation, training=training, step=view.step.number)
            return None
        rise = self.rise_threshold if len(history) >= _EVALUATIONS_FOR_NOISE else 2 * self.rise_threshold
        noise = scatter(history) if len(history) >= _EVALUATIONS_FOR_NOISE else 0.0
        margin = max(rise * abs(best["validation"]) + _NOISES_OF_EVALUATION * noise,
                     margin_of_rate(history, best["validation"]) if _is_rate(path, training) else 0.0)
        gap = (validation - training) / abs(training) if abs(training) > _NOTHING * abs(validation) else math.inf
        if not (gap > self.ratio_threshold and validation > best["validation"] + margin
                and training <= best["training"]):
            return None
        step, was = best["step"], best["validation"]
        fell = (f"fell to {number(training)} from {number(best['training'])}" if math.isfinite(gap)
                else "is close to 0")
        ratios = (Evidence(Key(Kind.LOSS, path), view.step.number, "ratio", gap, self.ratio_threshold,
                           f"(validation − training) / training = {number(gap)}"),) if math.isfinite(gap) else ()
        above = (f"{percent((validation - was) / abs(was))} above the best evaluation" if was
                 else "0 in the best evaluation")
        return Symptom(
            message=f"The validation loss rose to {number(validation)} from its best of {number(was)} at step {step}, "
                    f"while the training loss {fell}.",
            remedy=f"Stop, and use the weights of step {step}. Next time: more data or augmentation, dropout, weight "
                   f"decay, a smaller model, or early stopping on the validation loss.",
            evidence=(
                Evidence(Key(Kind.LOSS, path), view.step.number, "validation_loss", validation, was + margin,
                         above),
                *ratios,
            ),
            causes=_behind_overfitting(was, training, baseline),
        )

    def _guessed(
        self, view: StepView, path: str, training: float, validation: float, best: dict[str, Any],
        baseline: float | None,
    ) -> Symptom | None:
        """Return the symptom of predictions that were never better than guesses, if the training data is learned."""
        if (path in CLASS_LOSSES and (pairs := confusions_of(view).get(path))):
            # Not every evaluation records predictions.
            best["guesses"] = are_guesses(pairs)
        if (baseline is None or best["validation"] <= baseline or training >= _LEARNED * baseline
                or not best.get("guesses")):
            return None
        return Symptom(
            message=f"The validation loss is {number(validation)}, above that of a constant prediction "
                    f"({number(baseline)}) in all evaluations, while the training loss fell to {number(training)}.",
            remedy=_SAME_DATA,
            evidence=(Evidence(Key(Kind.LOSS, path), view.step.number, "validation_loss", validation, baseline,
                               "no more predictions are correct than by chance"),),
            causes=_behind_overfitting(best["validation"], training, baseline),
        )


_LEARNED = 0.5
_SAME_DATA = ("Print a few samples of both sets just before the model gets them: each label must belong to its input, "
              "and both sets must number the classes and scale the inputs alike.")


def _behind_overfitting(best: float, training: float, baseline: float | None) -> tuple[Suspicion, ...]:
    by_heart = Suspicion(Cause.OVERFITTING, 0.6,
                         f"the validation loss rises while the training loss has fallen to {number(training)}")
    if baseline is None or best < (1 - _AT_BASELINE) * baseline:
        return (by_heart, Suspicion(Cause.LABELS_UNRELATED, 0.05, "a common cause"))
    unrelated = Suspicion(
        Cause.LABELS_UNRELATED, 0.65,
        f"the validation loss was never better than that of a constant prediction ({number(baseline)}), while the "
        f"training loss fell to {number(training)}",
        _SAME_DATA,
    )
    return (unrelated, by_heart)


def margin_of_rate(history: Sequence[float], best: float) -> float:
    """Return how far an error rate may exceed its best by chance: three standard errors.

    The number of samples follows from the smallest difference between two values.

    Example:
        >>> round(margin_of_rate([0.0, 0.01, 0.0], 0.0), 2)
        0.03
    """
    values = sorted({round(value, 9) for value in history})
    if len(values) < 2 or values[0] < 0 or values[-1] > 1:
        return 0.0
    samples = 1 / min(after - before for before, after in pairwise(values))
    rate = min(max(best, 1 / samples), 0.5)
    return 3.0 * math.sqrt(rate * (1 - rate) / samples)


def _is_rate(path: str, training: float) -> bool:
    """Return whether a loss is an error rate: by its name, or because it is exactly 0, as no smooth loss is."""
    name = path.lower()
    named = "err" in name and not any(word in name for word in ("square", "absolute", "percentage", "mean"))
    return named or training == 0


_NOTHING = 1e-6
"""Below this share of the validation loss, a training loss counts as 0 and no ratio is reported."""
_MOST_TRAINED = 200
_NOISE_OVER, _EVALUATIONS_FOR_NOISE = 12, 7
_NOISES_OF_EVALUATION = 3.0


def _common(evaluated: dict[str, float], trained: dict[str, list[float]]) -> str | None:
    """Return the first loss that training and evaluation share."""
    return min((path for path in evaluated if trained.get(path)), default=None)
