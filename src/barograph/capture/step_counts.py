"""Counts the steps of a process: by optimizer, and of all trainings together."""

from __future__ import annotations

from collections.abc import Mapping

from barograph.model.step import ANOTHER_TRAINING, is_of_later_training


class StepCounts:
    """The steps of each optimizer, and the ticks of steps and evaluations.

    Attributes:
        tick: Number of ticks so far: that of the current step.
        first_step: Number of the first step, set by the script.
        last_stepped: Optimizer of the last step.
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
        """Number of steps of the busiest optimizer; before any, the number from a checkpoint."""
        return max(self._steps.values(), default=self.first_step or self._loaded_steps)

    @property
    def of_training(self) -> int:
        """Number of steps in the current training, which may not be the first of this process."""
        return self.made(self._training) if self._training else self.of_busiest

    @property
    def of_all(self) -> int:
        """Number of steps of all optimizers together."""
        return sum(self._steps.values())

    @property
    def training(self) -> str:
        """The only optimizer of the current training; "": the first training, or one with several."""
        return self._training

    def position_of(self, number: int, optimizer: str) -> int:
        """Return the number of steps of this process, including earlier trainings, before step `number`."""
        return number - self._offsets.get(optimizer, 0)

    def begin_at(self, step: int) -> None:
        """Set the number of the first step, unless a checkpoint has one."""
        self.first_step = step

    def start_at(self, optimizer: str, number: int) -> None:
        """Set the first step of an optimizer, from its checkpoint; 0: `first_step`."""
        if optimizer not in self._steps:
            number = number or self.first_step
            # A later training continues the steps of this process, so that all share one budget.
            before = self.of_all if is_of_later_training(optimizer) else 0
            self._steps[optimizer], self._offsets[optimizer] = number, number - before

    def resume_at(self, steps: Mapping[str, int]) -> None:
        """Continue each optimizer after its steps in the run before."""
        self._steps.update(steps)
        self._offsets.update(steps)

    def note_loaded(self, number: int) -> None:
        """Note the number of steps in a loaded checkpoint, for records before any optimizer steps."""
        self._loaded_steps = number

    def begin_training(self, optimizer: str) -> None:
        """Note the start of another training in this process, with this one optimizer; "": it has several."""
        self._training = optimizer

    def take_label(self) -> str:
        """Return the label of the only optimizer of a new training: "", then "#2", "#3"."""
        label = _free_label({*self._taken, *self._steps})
        self._taken.add(label)
        return label

    def label_of_first_training(self) -> str:
        """Return the label of the only optimizer in the first training of an integration that names later ones."""
        # Not from the steps: a resumed run has steps before its optimizer exists.
        return _free_label(self._taken)

    def take_tick(self) -> int:
        """Return the tick of an evaluation, and start the next."""
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
        """Count a step without records."""
        self._steps[optimizer] = self.made(optimizer) + 1
        self.tick += 1


def _free_label(taken: set[str]) -> str:
    number, label = 1, ""
    while label in taken:
        number += 1
        label = f"{ANOTHER_TRAINING}{number}"
    return label
