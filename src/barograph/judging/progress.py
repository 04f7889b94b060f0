"""Progress of evaluating a run, compared with the steps that its workers report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.rules.columns import learning_rate
from barograph.runs.reading.view import StepView

_BETWEEN_STEPS = frozenset({Kind.SCALAR, Kind.CUSTOM, Kind.MACHINE})
"""Kinds that may be recorded between two steps, with the number of the next one."""

_OF_THE_MODEL = frozenset({
    Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.INPUT, Kind.OUTPUT, Kind.OPTIMIZER_STATE,
    Kind.BATCH, Kind.IMPORTANCE, Kind.TREE,
})
"""A step that recorded one of these counts as recorded in a worker's coverage."""


_JUMP = 3.0
"""Factor over the previous maximum that makes a jump of a learning rate; a warmup seen every other step only
doubles."""
_FIRST_JUMP_STEP = 10
_MOST_JUMPS = 8


@dataclass(frozen=True, slots=True)
class RateJump:
    """A step at which the learning rate rose to several times its previous maximum.

    Attributes:
        worker: Worker group.
        step: The first recorded step with the new rate.
        old: The rate before.
        new: The new rate.
        before: The last recorded step with the old rate.
    """

    worker: str
    step: int
    old: float
    new: float
    before: int

    @property
    def when(self) -> str:
        """The step, or the recorded steps around it."""
        if self.step - self.before <= 1:
            return f"at step {self.step:,}"
        return f"between steps {self.before:,} and {self.step:,}"


@dataclass(slots=True)
class Progress:
    """Progress of one group of workers in its newest attempt.

    Attributes:
        attempt: Number of the attempt.
        made: Optimizer steps known from the records, of the busiest optimizer.
        with_tensors: Number of evaluated optimizer steps that recorded something of the model: tensors, or trees.
        greatest_rates: Maximum learning rate of each optimizer so far.
        rate_steps: Last step of each optimizer that recorded a learning rate.
        jumps: First jumps of the learning rate: step, old rate, new rate, and the last step with the old one.
    """

    attempt: int
    made: int = 0
    with_tensors: int = 0
    greatest_rates: dict[str, float] = field(default_factory=dict)
    rate_steps: dict[str, int] = field(default_factory=dict)
    jumps: list[tuple[int, float, float, int]] = field(default_factory=list)

    def take(self, view: StepView) -> None:
        """Count a step; a step of a later attempt resets the progress."""
        if view.attempt > self.attempt:
            self.attempt, self.made, self.with_tensors = view.attempt, 0, 0
            self.greatest_rates, self.rate_steps, self.jumps = {}, {}, []
        if view.step.mode is Mode.TRAIN and view.kinds - _BETWEEN_STEPS:
            self.made = max(self.made, view.step.number + 1)
            self.with_tensors += bool(view.kinds & _OF_THE_MODEL)
            if Kind.LEARNING_RATE in view.kinds:
                self._take_rate(view)

    def rate_jumps(self, group: str) -> list[RateJump]:
        """Return the jumps of the learning rate of this group of workers."""
        return [RateJump(group, *jump) for jump in self.jumps]

    def _take_rate(self, view: StepView) -> None:
        rate = learning_rate(view)
        if rate is None or not math.isfinite(rate):
            return
        before = self.greatest_rates.get(view.step.optimizer, 0.0)
        if before > 0 and rate >= _JUMP * before and view.step.number >= _FIRST_JUMP_STEP:
            last = self.rate_steps[view.step.optimizer]
            self.jumps = [*self.jumps, (view.step.number, before, rate, last)][:_MOST_JUMPS]
        self.rate_steps[view.step.optimizer] = view.step.number
        self.greatest_rates[view.step.optimizer] = max(before, rate)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def rate_jumps_in(progress: Mapping[str, Progress]) -> tuple[RateJump, ...]:
    """Return the jumps of the learning rate of all groups."""
    return tuple(jump for group, item in progress.items() for jump in item.rate_jumps(group))


def progress_from_json(data: Mapping[str, Any]) -> Progress:
    """Return the progress that `Progress.to_json` wrote."""
    progress = Progress(data["attempt"], data["made"], data["with_tensors"])
    # Missing in states of earlier versions.
    progress.greatest_rates = {str(name): float(rate) for name, rate in data.get("greatest_rates", {}).items()}
    progress.rate_steps = {str(name): int(step) for name, step in data.get("rate_steps", {}).items()}
    progress.jumps = [(int(step), float(old), float(new), int(last)) for step, old, new, last in data.get("jumps", ())]
    return progress
