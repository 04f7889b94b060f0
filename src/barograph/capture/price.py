"""The recording budget: decides which steps record tensors, and measures the cost of recording."""

from __future__ import annotations

import math

from barograph.capture.thread_clock import ProcessorWait
from barograph.model.manifest import SHORT_SECS

_SEEN_SHARE = 0.8
"""Share of the budget for capture by its own clock. The rest is for what that clock cannot measure: hook calls, and
cache misses of the training."""

_TENSORS_SHARE = 0.5
"""Minimum share of the budget for tensors, whatever the numbers of every step cost."""

_EVALUATIONS_SHARE = 0.2
"""Maximum share of the tensor budget for evaluations; a script may evaluate every few steps."""

_SMOOTHING = 0.3
_MAX_INTERVAL_STEPS = 2**20
_CHECKED_EVERY_SECS = 0.1

_OPENING_EVALUATIONS = 3
_OPENING_EVALUATION_SECS = 0.02

_LONGEST_PAUSE_SECS = 60.0
_PAUSE_TIMES = 4.0


class Price:
    """Measures the cost of recording, and decides which steps record tensors.

    The numbers of a step (its loss, its learning rates) are recorded at every step, whatever the budget. The budget
    governs tensors:

        allowed(t) = 0.8 · budget · max(t, √(t · 120 s))

    where t is the duration of the training without capture. Capture costs are processor time of the training thread; t
    is wall time without pauses and without the time that the thread waited for a processor, so that other programs on
    the machine affect neither.

    A step records tensors if its position is 0 or a power of two, at any cost, and every 2**k steps. k is chosen so
    that the current allowance, minus the expected cost of numbers and evaluations, lasts until the run is about twice
    as long. So tensors are spread over a run of any length.
    All intervals are powers of two, so that workers with different costs record common steps.

    The first three evaluations are recorded on credit, if they take at most a fiftieth of a second each, and later ones
    if the budget allows. Evaluations may spend a fifth of the tensor budget.

    A pause of more than a minute, such as between two notebook cells, counts as a minute, unless steps take that long.

    Args:
        budget: Maximum share, above 0; None: no limit.

    Attributes:
        spent_secs: Processor time that capture has used in the training thread.
        interval_steps: Current interval between steps with tensors.
    """

    def __init__(self, budget: float | None) -> None:
        self.budget = budget
        self.spent_secs = 0.0
        self.interval_steps = 1
        self._start: float | None = None
        self._heard = self._silence_secs = 0.0
        self._paused_secs = 0.0
        self._processor_wait = ProcessorWait()
        self._waited_secs = 0.0
        self._check_at = -math.inf
        self._step_secs = 0.0
        self._numbers_secs = 0.0
        self._tensors_secs: float | None = None
        self._tensor_steps = 0
        self._credits = 0
        self._evaluations = 0
        self._evaluation_secs = 0.0
        self._evaluations_secs = 0.0
        self._evaluation_on_credit = False

    # Time

    def start(self, now: float) -> None:
        """Start counting training time; later calls do nothing."""
        if self._start is None:
            self._start = self._heard = now
            self._processor_wait.start()

    def hear(self, now: float) -> None:
        """Note that training continues."""
        if self._start is None:
            return
        silence_secs = now - self._heard
        if silence_secs > _LONGEST_PAUSE_SECS:
            self._paused_secs += max(0.0, silence_secs - max(_LONGEST_PAUSE_SECS, _PAUSE_TIMES * self._silence_secs))
        self._heard, self._silence_secs = now, silence_secs

    def training_secs(self, now: float) -> float:
        """Return how long training has taken without capture, pauses and waits for a processor."""
        if self._start is None:
            return 0.0
        return max(0.0, now - self._start - self._paused_secs - self._waited_secs - self.spent_secs)

    def waited_secs(self) -> float:
        """Return how long the training thread has waited for a processor."""
        return self._processor_wait.secs()

    @property
    def paused_secs(self) -> float:
        """Wall time that has been excluded from training time so far, without waits for a processor."""
        return self._paused_secs

    def pass_over(
        self, secs: float, now: float, *, waited_before_secs: float = 0.0, paused_before_secs: float | None = None
    ) -> None:
        """Exclude the last `secs` from training time: a compiler ran, which says nothing about the duration of steps.

        Args:
            secs: Wall time.
            now: Current time.
            waited_before_secs: Result of `waited_secs` before it: what was waited since is excluded already.
            paused_before_secs: `paused_secs` before it, if parts of it may have been excluded already.
        """
        if self._start is not None:
            self._waited_secs = self.waited_secs()
            before = self._paused_secs if paused_before_secs is None else paused_before_secs
            self._paused_secs = max(self._paused_secs, before + secs - (self._waited_secs - waited_before_secs))
            self._heard = min(now, self._heard + secs)

    # Cost

    def charge(self, secs: float) -> None:
        """Add processor time of the training thread, to the total and to the current step."""
        self.spent_secs += secs
        self._step_secs += secs

    def forget_step(self) -> None:
        """Reset the cost of the current step: what was spent so far was not spent on tensors."""
        self._numbers_secs += self._step_secs
        self._step_secs = 0.0

    def end_step(self, mask: int) -> None:
        """Note that the current step recorded `mask`: its cost predicts the next one's."""
        secs, self._step_secs = self._step_secs, 0.0
        if mask == 0:
            self._numbers_secs += secs
            return
        self._tensor_steps += 1
        # The first step also builds tables and names, so it predicts little.
        if self._tensors_secs is None or self._tensor_steps == 2:
            self._tensors_secs = secs
        else:
            self._tensors_secs += _SMOOTHING * (secs - self._tensors_secs)

    def end_evaluation(self, mask: int) -> None:
        """Note that an evaluation recorded `mask`: its cost predicts the next one's, and is not part of a step's."""
        self._evaluation_secs, self._step_secs = self._step_secs, 0.0
        self._evaluations_secs += self._evaluation_secs

    # Decisions

    def grant(self, steps: int) -> None:
        """Give credit for this many of the next due steps, because they show the effect of a change."""
        self._credits = max(self._credits, steps)

    def comes_round(self, position: int, now: float) -> bool:
        """Return whether the step at this position may record tensors, so that the plan must be checked.

        Args:
            position: Number of earlier steps in this process and series.
            now: Seconds by the clock passed to `start`.
        """
        if self.budget is None or self._credits > 0 or position & (position - 1) == 0:
            return True
        if now >= self._check_at:
            self._check(position, now)
        return position % self.interval_steps == 0

    def steps_until_round(self, position: int) -> int:
        """Return the number of steps until the next one that `comes_round`, as currently known."""
        if self.budget is None or self._credits > 0:
            return 1
        return min(self.interval_steps - position % self.interval_steps, (1 << position.bit_length()) - position)

    def affords(self, mask: int, position: int, now: float) -> bool:
        """Return whether the step at this position may take `mask`; on credit, or because the budget has room."""
        if self.budget is None or mask == 0:
            return True
        if self._credits > 0:
            self._credits -= 1
            return True
        if position & (position - 1) == 0:
            return True
        self._check(position, now)
        # The interval keeps to the budget. A step that is left out because a little is missing makes a wide gap.
        return position % self.interval_steps == 0 and self._left_secs(self.training_secs(now)) >= 0

    def has_room(self, now: float) -> bool:
        """Return whether the budget currently allows tensors, in any step."""
        return self.budget is None or self._left_secs(self.training_secs(now)) >= (self._tensors_secs or 0.0)

    def affords_evaluation(self, mask: int, now: float) -> bool:
        """Return whether an evaluation may record `mask`: the budget covers its predicted cost, or it has credit."""
        if self.budget is None or mask == 0:
            return True
        self._evaluations += 1
        self._evaluation_on_credit = self._evaluations <= _OPENING_EVALUATIONS
        return self._evaluation_on_credit or self._left_for_evaluations_secs(now) >= self._evaluation_secs

    def evaluation_goes_on(self, mask: int, now: float) -> bool:
        """Return whether to continue recording the current evaluation, whose length is unknown."""
        if self.budget is None or mask == 0 or self._left_for_evaluations_secs(now) >= self._step_secs:
            return True
        if self._evaluation_on_credit and self._step_secs <= _OPENING_EVALUATION_SECS:
            return True
        # Wait for twice as much before the next one is tried.
        self._evaluation_secs = 2 * max(self._step_secs, self._evaluation_secs)
        return False

    def _check(self, position: int, now: float) -> None:
        """Recompute the interval."""
        self._check_at = now + _CHECKED_EVERY_SECS
        self._waited_secs = self._processor_wait.secs()
        if self._tensors_secs is None:
            return
        # Divide the budget until the run is twice as long among as many steps as so far.
        left_secs = self._left_secs(2 * self.training_secs(now), numbers_secs=2 * self._numbers_secs)
        octave_secs = max(0.0, left_secs - self._evaluations_secs)  # evaluations will cost as much again
        steps = octave_secs / self._tensors_secs if self._tensors_secs > 0 else math.inf
        if steps * _MAX_INTERVAL_STEPS <= position:
            self.interval_steps = _MAX_INTERVAL_STEPS
        else:
            # The nearest power of two: the next one above leaves a tenth of the budget unspent. If it is too
            # small, less is left when this is next computed, and the interval grows.
            self.interval_steps = 1 << round(math.log2(position / steps)) if steps < position else 1

    def _left_secs(self, training_secs: float, numbers_secs: float | None = None) -> float:
        """Return the remaining tensor budget in a training of that length.

        Args:
            training_secs: The length.
            numbers_secs: Cost of the numbers of all steps by then. None: their cost so far.
        """
        spent_secs = self.spent_secs - self._numbers_secs
        return self._for_tensors_secs(training_secs, numbers_secs) - spent_secs

    def _left_for_evaluations_secs(self, now: float) -> float:
        training_secs = self.training_secs(now)
        share_secs = _EVALUATIONS_SHARE * self._for_tensors_secs(training_secs)
        return min(self._left_secs(training_secs) + self._step_secs, share_secs - self._evaluations_secs)

    def _for_tensors_secs(self, training_secs: float, numbers_secs: float | None = None) -> float:
        allowed = _SEEN_SHARE * (self.budget or 0.0) * max(training_secs, math.sqrt(SHORT_SECS * training_secs))
        numbers_secs = self._numbers_secs if numbers_secs is None else numbers_secs
        return max(_TENSORS_SHARE * allowed, allowed - numbers_secs)

    @property
    def budget_or_nan(self) -> float:
        """The budget; NaN if there is none."""
        return math.nan if self.budget is None else self.budget
