"""Chooses what to record of each step: what is due by its schedule and within the budget."""

from __future__ import annotations

from barograph.capture.loss_level import LossLevel
from barograph.capture.plan import Agenda, Plan
from barograph.capture.price import Price
from barograph.capture.step_counts import StepCounts
from barograph.model.clock import Clock
from barograph.model.step import Mode

_MOST_LOOKS = 8
_LOOKS_APART_STEPS = 16
_LOOK_STEPS = 4
"""Limits of detailed recording after a change: how often, how far apart and for how many steps."""

_HIGHER_TIMES = 4.0
_MOST_HIGHER_LOOKS = 4
"""Factor over all jumps recorded in detail from which another one is recorded at once, and how many of these are."""


class StepChoice:
    """Chooses from the plan within the budget; records more after a change in the training.

    Args:
        plan: What to record.
        price: The budget.
        counts: Numbers of steps.
        clock: Time.

    Attributes:
        level: Running level of the loss, whose jump is a change.
    """

    __slots__ = (
        "_agenda", "_clock", "_counts", "_fact_steps", "_higher_looks", "_highest", "_look_waits", "_looked_at",
        "_looks", "_plan", "_price", "level",
    )  # fmt: skip

    def __init__(self, plan: Plan, price: Price, counts: StepCounts, clock: Clock) -> None:
        self.level = LossLevel()
        self._plan = plan
        self._price = price
        self._counts = counts
        self._clock = clock
        self._agenda = Agenda(plan)
        self._looks = 0
        self._look_waits = False
        self._looked_at = 0
        self._fact_steps = 0
        self._highest = 0.0
        self._higher_looks = 0

    def choose(self, number: int, mode: Mode = Mode.TRAIN, optimizer: str = "") -> int:
        """Return the mask of this step: what is due and within the budget."""
        if mode is not Mode.TRAIN:
            # An evaluation covers all steps since the last one, because few coincide with a schedule.
            due, now = self._agenda.due(number, mode), self._clock.monotonic()
            self._price.hear(now)
            return due if self._price.affords_evaluation(due, now) else 0
        if self._price.budget is None:
            return self._plan.scheduled(number, mode)
        position, now = self._counts.position_of(number, optimizer), self._clock.monotonic()
        if not self._price.comes_round(position, now):
            return 0
        due = self._agenda.due(number, mode, optimizer)
        if self._fact_steps:
            # As at the start of a training: some rules wait for a fact to be the same at several steps.
            due |= self._plan.facts
        if not self._price.affords(due, position, now):
            return 0
        self._fact_steps = max(0, self._fact_steps - 1)
        return due

    def took(self, mask: int, mode: Mode = Mode.TRAIN, optimizer: str = "") -> None:
        """Note that the masked Selections were taken."""
        self._agenda.took(mask, mode, optimizer)

    def evaluation_goes_on(self, mask: int) -> bool:
        """Return whether the budget allows reading more of the current evaluation."""
        return self._price.evaluation_goes_on(mask, self._clock.monotonic())

    def has_room(self) -> bool:
        """Return whether the budget currently allows tensors, whatever is due."""
        return self._price.has_room(self._clock.monotonic())

    def steps_until_round(self, optimizer: str) -> int:
        """Return the number of steps until the next one that may record tensors."""
        return self._price.steps_until_round(self._counts.position_of(self._counts.made(optimizer), optimizer))

    def saw_loss(self, value: float) -> None:
        """Record in detail after a jump of the loss: at once, if it is much higher than those recorded so far."""
        jumps, optimizer = self.level.jumps(value), self._counts.last_stepped
        height = self.level.above(value) if jumps else 0.0
        higher = height > _HIGHER_TIMES * self._highest
        if higher and self._highest and self._higher_looks < _MOST_HIGHER_LOOKS:
            # A loss near zero jumps often, and the jump of another model or of other data would have to wait.
            self._higher_looks += 1
            self._look(optimizer)
        elif jumps or self._look_waits:
            self.look_closely(optimizer)
        if higher and self._looked_at == self._counts.of_all:
            self._highest = height

    def look_closely(self, optimizer: str) -> None:
        """Record the next steps of an optimizer completely, on credit, because something has changed in this training.

        A training that changes all the time gets no additional credit.
        """
        self._look_waits = self._looks < _MOST_LOOKS
        if self._look_waits and self._counts.of_all >= self._looked_at + _LOOKS_APART_STEPS:
            self._looks += 1
            self._look(optimizer)

    def _look(self, optimizer: str) -> None:
        self._look_waits = False
        self._looked_at = self._counts.of_all
        self._fact_steps = _LOOK_STEPS
        self._agenda.owe(self._plan.everything(), optimizer)
        self._price.grant(_LOOK_STEPS)
