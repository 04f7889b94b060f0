"""Rules about the loss, in training and in evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar

from barograph.measures.robust import level
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import learning_rate, stated_loss
from barograph.rules.words import lower_rate, number, percent, sentence
from barograph.runs.view import StepView

_LOSS = frozenset({Kind.LOSS})
_MOST_BLOCKS = 200


@dataclass(frozen=True, kw_only=True)
class LossNotDecreasing(Rule):
    """L101: The training loss does not fall, or rises again.

    What it sees: the median loss of each `window` recorded steps. It should be at least `diff_percent` below that
      of `num_steps` earlier, until the loss has fallen by `settled_percent` from where it began: from then on it
      may rest, because it may have converged. At any time it should not be more than `increase_threshold_percent`
      above the best median so far (a percentage of that, or of all that was gained, whichever is more, and above
      what its own noise explains).
    Why it matters: a model that does not learn from its data costs as much as one that does.
    What to do: overfit one batch first. If that works, change the learning rate; if not, look at labels, at the
      loss, at what reaches the optimizer. If the loss rises after it had fallen, lower the learning rate.
    When it is wrong: adversarial training, where no loss need fall (so runs with several optimizers are not judged);
      a model that came already trained; a curriculum that grows harder; a learning rate that is restarted.
    Tried on: silent on all 145 healthy trainings, batches of 4 and 5,000 steps of a converged model among them. Labels
      shuffled, learning rates of 1e-6 (SGD) and 1e-8 (Adam), chains of sigmoids, dead layers and softmax applied twice
      fire between steps 79 and 330; a learning rate raised 80 times fires 29 steps later.
    Source: Amazon SageMaker Debugger's LossNotDecreasing, which compares single losses, and so alarmed at noise;
      its documented numbers hold with `window` 1.
    """

    code: ClassVar[str] = "L101"
    name: ClassVar[str] = "loss-not-decreasing"
    severity: ClassVar[Severity] = Severity.COSTLY

    num_steps: int = parameter(50, "Steps that must lie between the medians that are compared.", at_least=1)
    diff_percent: float = parameter(0.1, "Least fall between the two, in percent.", at_least=0.0, below=100.0)
    increase_threshold_percent: float = parameter(
        5.0, "Rise above the best median that is let pass, in percent.", at_least=0.0,
    )
    settled_percent: float = parameter(
        5.0, "Fall from the first median after which the loss may rest, in percent.", at_least=0.0, below=100.0,
    )
    window: int = parameter(10, "Recorded losses whose median is taken.", at_least=1)
    patience: int = parameter(3, "Medians in a row that must show the fault before a finding opens.", at_least=1)
    recovery: int = parameter(10, "Medians in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=_LOSS, schedule=Schedule(modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = stated_loss(view)
        if found is None or view.step.mode is not Mode.TRAIN or not math.isfinite(found[1]):
            yield Unjudged("no training loss was recorded that is finite")
            return
        if view.step.optimizer:
            yield Unjudged("with several optimizers a loss need not fall, as in adversarial training")
            return
        block = self._block(view.step.number, *found, memory)
        past = [item for item in memory.get("blocks", ()) if block and item[0] <= view.step.number - self.num_steps]
        if block is None or not past:
            yield Unjudged(f"the losses recorded do not span {self.num_steps} steps and {self.window} more yet")
            return
        yield from self._judged(view, found[0], block, past, memory["blocks"])

    def _block(self, step: int, key: Key, loss: float, memory: Memory) -> float | None:
        """Take the loss in; return the median it completes, None as long as it completes none."""
        if memory.get("key") != str(key):
            memory.clear()
            memory.update(key=str(key), losses=[], blocks=[])
        memory["losses"].append(loss)
        if len(memory["losses"]) < self.window:
            return None
        now = float(median(memory["losses"]))
        memory["losses"] = []
        memory["blocks"].append([step, now])
        # The first stays, since it is what the loss began with; so does the best.
        blocks = memory["blocks"]
        if len(blocks) > _MOST_BLOCKS:
            best = min(range(len(blocks)), key=lambda index: float(blocks[index][1]))
            del blocks[2 if best == 1 else 1]
        return now

    def _judged(
        self, view: StepView, key: Key, now: float, past: list[list[float]], blocks: list[list[float]]
    ) -> Iterable[Symptom]:
        first, reference = blocks[0][1], past[-1]
        best = min(past, key=lambda item: item[1])
        gained = first - best[1]
        share = self.increase_threshold_percent / 100
        allowed = share * max(abs(best[1]), gained) + _NOISES * _noise([item[1] for item in blocks[-21:]], 6)
        settled = first - min(now, best[1]) >= self.settled_percent / 100 * abs(first)
        if now > best[1] + allowed:
            yield self._symptom(view, key, now, best, "rises", (
                f"The loss rose to {number(now)}, from {number(best[1])} at step {int(best[0])}."
            ), f"{sentence(lower_rate(learning_rate(view), 3))}, or let a schedule decay it; go on from the weights of "
               f"step {int(best[0])} if a checkpoint holds them.")
        elif not settled and not now < reference[1] - self.diff_percent / 100 * abs(reference[1]):
            yield self._symptom(view, key, now, reference, "does not fall", (
                f"The loss does not fall: {number(now)} now, {number(reference[1])} at step {int(reference[0])}, "
                f"{number(first)} at the start."
            ), _against_standing_loss(view))

    def _symptom(
        self, view: StepView, key: Key, now: float, then: list[float], subject: str, message: str, remedy: str
    ) -> Symptom:
        text = f"median of the last {self.window} recorded losses; {number(then[1])} at step {int(then[0])}"
        evidence = Evidence(key, view.step.number, "median_loss", now, then[1], text)
        return Symptom(message=message, remedy=remedy, subject=subject, evidence=(evidence,))


_NOISES = 4.0


def _noise(series: list[float], least: int) -> float:
    """Return how much a series scatters about its trend, from the differences of neighbours.

    0 where it has fewer than `least` values: of a few, trend and scatter cannot be told apart.
    """
    differences = [after - before for before, after in pairwise(series)]
    return level(differences).spread / math.sqrt(2) if len(series) >= least else 0.0


def _against_standing_loss(view: StepView) -> str:
    rate = learning_rate(view)
    rates = ("ten times as large and ten times as small" if rate is None
             else f"{number(rate * 10)} and {number(rate / 10)} beside {number(rate)}")
    return (f"Train on one batch alone, with learning rates {rates}. A model that cannot learn even that has its fault "
            "in the loss, the labels or the optimizer (is zero_grad called, are these the model's parameters, is "
            "softmax applied twice?); one that can needs another learning rate.")


@dataclass(frozen=True, kw_only=True)
class Overfit(Rule):
    """L102: The validation loss rises while the training loss goes on falling.

    What it sees: at each evaluation the mean validation loss and, by the same loss function, the median training
      loss since the evaluation before. Overfitting is: (validation − training) / training above `ratio_threshold`,
      and validation above its own best by `rise_threshold` and three times its noise (the robust spread of its steps
      from evaluation to evaluation; before the seventh, when that is not known, by twice `rise_threshold`), and
      training no higher than at that best.
    Why it matters: from the best evaluation on, training makes the model worse at what it is for.
    What to do: stop, and take the weights of the best evaluation; next time more data or augmentation, dropout,
      weight decay, a smaller model, early stopping.
    When it is wrong: validation sets so small that their loss wanders; label noise, where accuracy may still grow
      as the loss rises.
    Tried on: silent on the healthy trainings but one, trained for 180 epochs, whose validation loss rises by 30 % from
      its best while accuracy stays: it fires there after 130 epochs. 200 samples with random labels fire within 350
      steps, 40 samples with true ones within 800.
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
            yield Unjudged("no loss was recorded that training and evaluation have in common")
            return
        training, validation = float(median(trained[path])), losses[path]
        trained.clear()
        symptom = self._compared(view, path, training, validation, memory.setdefault(path, {}))
        if symptom is not None:
            yield symptom

    def _compared(
        self, view: StepView, path: str, training: float, validation: float, best: dict[str, Any]
    ) -> Symptom | None:
        history: list[float] = best.setdefault("validations", [])
        history.append(validation)
        del history[:-_NOISE_OVER]
        if validation <= best.get("validation", math.inf):
            best.update(validation=validation, training=training, step=view.step.number)
            return None
        rise = self.rise_threshold if len(history) >= _EVALUATIONS_FOR_NOISE else 2 * self.rise_threshold
        noise = _noise(history, _EVALUATIONS_FOR_NOISE)
        margin = rise * abs(best["validation"]) + _NOISES_OF_EVALUATION * noise
        gap = (validation - training) / max(abs(training), 1e-12)
        if not (gap > self.ratio_threshold and validation > best["validation"] + margin
                and training <= best["training"]):
            return None
        step, was = best["step"], best["validation"]
        return Symptom(
            message=f"The validation loss rose to {number(validation)} from its best of {number(was)} at step {step}, "
                    f"while the training loss fell to {number(training)} from {number(best['training'])}.",
            remedy=f"Stop, and take the weights of step {step}. Next time: more data or augmentation, dropout, weight "
                   f"decay, a smaller model, or early stopping on the validation loss.",
            evidence=(
                Evidence(Key(Kind.LOSS, path), view.step.number, "validation_loss", validation, was + margin,
                         f"{percent((validation - was) / max(abs(was), 1e-12))} above the best evaluation"),
                Evidence(Key(Kind.LOSS, path), view.step.number, "ratio", gap, self.ratio_threshold,
                         f"(validation − training) / training = {number(gap)}"),
            ),
        )


_MOST_TRAINED = 200
_NOISE_OVER, _EVALUATIONS_FOR_NOISE = 12, 7
_NOISES_OF_EVALUATION = 3.0


def _common(evaluated: dict[str, float], trained: dict[str, list[float]]) -> str | None:
    """Return the loss that stands in both: what a loss function returned, or the one both start from."""
    return min((path for path in evaluated if trained.get(path)), default=None)
