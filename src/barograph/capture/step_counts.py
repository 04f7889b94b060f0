"""Counts the steps of a process: of each optimizer, and of all trainings together."""

from __future__ import annotations

from collections.abc import Mapping

from barograph.model.step import ANOTHER_TRAINING, is_of_later_training


class StepCounts:
    """The steps that each optimizer has made, and the ticks that they and the evaluations have taken.

    Attributes:
        tick: Ticks published so far: that of the step under way.
        first_step: Number of the first step, as the script says.
        last_stepped: Optimizer that made the last step.
    """

    __slots__ = ("_loaded_steps", "_offsets", "_steps", "_taken", "_training", "first_step", "last_stepped", "tick")

    def __init__(self) -> None:
        self.tick = 0
        self.first_step = 0
        self.last_stepped = ""
        self._steps: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        self._training = ""
        self._taken: set[str] = set()
        self._loaded_steps = 0

    def made(self, optimizer: str) -> int:
        """Return how many steps this optimizer has made."""
        return self._steps.get(optimizer, 0)

    @property
    def by_optimizer(self) -> Mapping[str, int]:
        """How many steps each optimizer has made."""
        return self._steps

    @property
    def of_busiest(self) -> int:
        """How many steps the busiest optimizer has made; before any, those a checkpoint brought."""
        return max(self._steps.values(), default=self.first_step or self._loaded_steps)

    @property
    def of_training(self) -> int:
        """How many steps have been made in the training that goes on, which need not be the first of this process."""
        return self.made(self._training) if self._training else self.of_busiest

    @property
    def of_all(self) -> int:
        """How many steps all optimizers have made together."""
        return sum(self._steps.values())

    @property
    def training(self) -> str:
        """The one optimizer of the training that goes on; "": the first training, or one with several."""
        return self._training

    def position_of(self, number: int, optimizer: str) -> int:
        """Return how many steps this process had made, of this and earlier trainings, before step `number`."""
        return number - self._offsets.get(optimizer, 0)

    def begin_at(self, step: int) -> None:
        """Let steps begin with this number, where no checkpoint says otherwise."""
        self.first_step = step

    def start_at(self, optimizer: str, number: int) -> None:
        """Let an optimizer begin with step `number`, as its checkpoint says; 0: with `first_step`."""
        if optimizer not in self._steps:
            number = number or self.first_step
            # A later training goes on where the steps of this process are, so that all share one budget.
            before = self.of_all if is_of_later_training(optimizer) else 0
            self._steps[optimizer], self._offsets[optimizer] = number, number - before

    def resume_at(self, steps: Mapping[str, int]) -> None:
        """Let each optimizer begin with the step after those that it had made in the run before."""
        self._steps.update(steps)
        self._offsets.update(steps)

    def note_loaded(self, number: int) -> None:
        """Note that a checkpoint brought so many steps, for what is recorded before any optimizer steps."""
        self._loaded_steps = number

    def begin_training(self, optimizer: str) -> None:
        """Note that another training has begun in this process, with this one optimizer; "": that has several."""
        self._training = optimizer

    def take_label(self) -> str:
        """Return what the one optimizer of a training is called that begins now: "", and after others "#2", "#3"."""
        label = _free_label({*self._taken, *self._steps})
        self._taken.add(label)
        return label

    def label_of_first_training(self) -> str:
        """Return the label of the only optimizer in the first training of an integration that names later ones."""
        # Not from the steps: those of a run that is resumed are there before its optimizer.
        return _free_label(self._taken)

    def take_tick(self) -> int:
        """Return the tick of an evaluation, and begin the next."""
        tick, self.tick = self.tick, self.tick + 1
        return tick

    def end_step(self, optimizer: str) -> tuple[int, int]:
        """Count a step of an optimizer; return its tick and its number."""
        tick, number = self.tick, self._steps.get(optimizer, 0)
        self.tick = tick + 1
        self._steps[optimizer] = number + 1
        self.last_stepped = optimizer
        return tick, number

    def pass_step(self, optimizer: str) -> None:
        """Count a step of which nothing is known."""
        self._steps[optimizer] = self.made(optimizer) + 1
        self.tick += 1


def _free_label(taken: set[str]) -> str:
    number, label = 1, ""
    while label in taken:
        number += 1
        label = f"{ANOTHER_TRAINING}{number}"
    return label
