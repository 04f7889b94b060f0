"""Compares the training loss with its baseline: the loss of one constant prediction for all inputs."""

from __future__ import annotations

from dataclasses import dataclass

from barograph.model.key import Key
from barograph.model.step import Mode
from barograph.rules.base import Memory, Unjudged
from barograph.rules.baseline import baseline_of, note_targets, plain_loss
from barograph.rules.clues import note_pace
from barograph.rules.columns import learning_rate
from barograph.rules.course import Fall, Point, course_of, course_since, extend, fall_of, noise_of, point_of
from barograph.rules.explosion import note_explosion
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, slots=True)
class Level:
    """A loss and its baseline.

    Attributes:
        key: Of the loss.
        baseline: Loss of one constant prediction for all inputs.
        fall: From the first third of the course to the last.
        first: The first level of all.
        begun: First step of the course.
        late: Its last two thirds: by then a loss has come down from where it began.
        noise: Standard error of one of its points.
    """

    key: Key
    baseline: float
    fall: Fall
    first: float
    begun: int
    late: tuple[Point, ...]
    noise: float

    @property
    def is_noisy(self) -> bool:
        """Whether noise hides the level of the loss."""
        return self.fall.noise > _TOO_NOISY * self.baseline


def follow(view: StepView, memory: Memory, window: int, least_steps: int) -> Level | Unjudged:
    """Add the loss of a step; return its level once `window` losses complete a median."""
    if view.step.mode is not Mode.TRAIN:
        return Unjudged("only evaluations were recorded")
    if view.step.has_rivals:
        return Unjudged("the run has several optimizers, as in adversarial training, which balances near chance")
    note_targets(view, memory)
    note_pace(view, memory)
    note_explosion(view, memory)
    rate = learning_rate(view)
    if rate is not None and rate > memory.get("peak_rate", 0.0):
        memory["peak_rate"], memory["peak_step"] = rate, view.step.number
    found = plain_loss(view)
    if found is None:
        return Unjudged("no loss from a single known loss function was recorded")
    key, loss = found
    if memory.get("loss") != key.path:
        memory["loss"] = key.path
        for name in ("course", "waiting", "stride", "since", "losses", "first"):
            memory.pop(name, None)
    memory.setdefault("since", view.step.number)
    losses: list[float] = memory.setdefault("losses", [])
    losses.append(loss)
    if len(losses) < window:
        return Unjudged(f"needs {window} losses; this run has {len(losses)}", passing="course" in memory)
    point = point_of(memory.pop("since"), view.step.number, losses)
    memory["losses"] = []
    extend(memory, point)
    memory.setdefault("first", [point.value, point.first])
    baseline = baseline_of(key.path, memory)
    if baseline is None:
        return Unjudged("too few labels or targets were recorded to compute the loss of a constant prediction")
    whole = course_of(memory)
    since = course_since(whole, memory.get("peak_step", 0))
    if len(since) < _LEAST_POINTS or view.step.number - max(memory["first"][1], since[0].first) < least_steps:
        return Unjudged(f"needs losses of {least_steps} steps since the learning rate last rose")
    noise = noise_of(whole)
    fall = fall_of(since, noise=noise)
    if fall is None:
        return NOISY
    return Level(key, baseline, fall, memory["first"][0], since[0].first, tuple(since[len(since) // 3:]), noise)


NOISY = Unjudged("the loss is too noisy to compare with its baseline")
_LEAST_POINTS = 6
_TOO_NOISY = 0.02
