"""Keeps capture under its budget, and says what it cost."""

from __future__ import annotations

import math

GRACE_SECS = 0.1
"""What capture may spend beside its share; in a run of a minute that is a sixth of a percent."""

SHORT_STEPS_GRACE_SECS = 0.5
"""The same where steps are so short that their share alone would leave most of a training unseen."""

_OPENING_STEPS = 10
_OPENING_EVALUATIONS = 3
_OPENING_EVALUATION_SECS = 0.02
_SHORT_SHARE = 0.3
"""Of a step: where what is recorded of one costs more than that, steps are short."""

_STEPS_AN_OCTAVE = (4, 32)
_NUMBERS_AN_OCTAVE = 128
_OCTAVES = 8
"""How many times the number of steps may double before the grace is used up: from the tenth to some thousands."""

_SEEN_SHARE = 0.8
"""Of the budget: what the clock of capture may see it spend. The rest is for what no clock of its own can see: calls of
hooks, and caches that the training finds cold. Measured by leaving capture out of every other step."""

_NUMBERS_SHARE = 0.5
"""Of the budget and of the grace: what is kept for plain numbers."""

_SMOOTHING = 0.3
_PLENTY = 3.0
_LONGEST_SLEEP_STEPS = 64
_MAX_INTERVAL_STEPS = 2**20
_LONGEST_PAUSE_SECS = 60.0
_PAUSE_TIMES = 4.0


class Price:
    """Measures what capture costs and decides when the next step can be afforded.

    The promise is over the run: capture's share of the time that training takes without it is at most
    `budget`, of which it spends four fifths by its own clock and leaves the rest to what that does not see, plus
    a tenth of a second that is not counted, so that a training of a few seconds is seen as well; half a second
    where steps are so short that what is recorded of one costs as much as a third of it. The first steps say
    most about initialisation, so the first ten that are due are recorded on credit, and paid back before any other.

    From then on steps are recorded as far apart as the budget asks for, or, out of what is not counted, every 2**k
    steps from step n · 2**k on, n being 4 to 32 as their price allows: nobody knows how long a training will be, and
    so each part of it has its share. Up to half of either is kept for plain numbers, the loss above all.

    Evaluations come when they come: the first three are read on credit, if that takes no longer than a fiftieth
    of a second each, and any other when there is room for it.

    All intervals are powers of two: of several workers that measure different costs, each records a part
    of the steps of the next, so they meet on common steps.

    A pause of more than a minute, as between two cells of a notebook, counts as a minute: else an hour at lunch
    would pay for dense recording in the minute after it. Where steps are that long, it is no pause.

    All times are seconds of one monotonic clock.

    Args:
        budget: Greatest share, above 0; None: no limit.

    Attributes:
        keeps_grace: Steps that were found to be short stay so: where a step that is recorded runs another program, what
            was spent on it would leave nothing for losses once steps seem long.
    """

    def __init__(self, budget: float | None) -> None:
        self.budget = budget
        self.keeps_grace = False
        self.spent_secs = 0.0
        self.interval_steps = 1
        self._start: float | None = None
        self._heard = self._silence_secs = 0.0
        self._paused_secs = 0.0
        self._estimates: dict[int, float] = {}
        self._evaluations: dict[int, float] = {}
        self._step_secs = 0.0
        self._numbers_secs = 0.0
        self._steps = 0
        self._recorded_steps = 0
        self._recorded_secs = 0.0
        self._grace_secs = GRACE_SECS
        self._credits = _OPENING_STEPS
        self._evaluation_credits = _OPENING_EVALUATIONS
        self._evaluation_on_credit = False

    def start(self, now: float) -> None:
        """Begin to count training time; later calls do nothing."""
        if self._start is None:
            self._start = self._heard = now

    def hear(self, now: float) -> None:
        """Note that training goes on now."""
        if self._start is None:
            return
        silence_secs, usual_secs = now - self._heard, max(_LONGEST_PAUSE_SECS, _PAUSE_TIMES * self._silence_secs)
        self._paused_secs += max(0.0, silence_secs - usual_secs)
        self._heard, self._silence_secs = now, silence_secs

    def elapsed_secs(self, now: float) -> float:
        """Return the wall time since training began; 0 before it did."""
        return now - self._start if self._start is not None else 0.0

    def charge(self, secs: float) -> None:
        """Add to what was spent in the training thread, and to what the step under way has cost."""
        self.spent_secs += secs
        self._step_secs += secs

    def pass_over(self, secs: float, now: float) -> None:
        """Take the last `secs` for no training: a compiler was waited for, which says nothing of how long steps are."""
        if self._start is not None:
            self._paused_secs += secs
            self._heard = min(now, self._heard + secs)

    def forget_step(self) -> None:
        """Count anew what the step under way costs: what was spent so far was spent on something else."""
        self._step_secs = 0.0

    def end_step(self, mask: int) -> None:
        """Note that the step under way took `mask`, to foresee from its cost that of the next."""
        secs, self._step_secs = self._step_secs, 0.0
        self._steps += 1
        if mask == 0:
            self._numbers_secs += secs
        else:
            # Of the first all that is read for the first time is a part.
            self._recorded_secs += secs if self._recorded_steps else 0.0
            self._recorded_steps += 1
        _smooth(self._estimates, mask, secs)

    def end_evaluation(self, mask: int) -> None:
        """Note that an evaluation took `mask`, to foresee from its cost that of the next."""
        _smooth(self._evaluations, mask, self._step_secs)

    def pass_step(self) -> None:
        """Note that a step was made of which not even its numbers were taken."""
        self._steps += 1
        self._numbers_secs += self._step_secs
        self._step_secs = 0.0

    def grant(self, steps: int) -> None:
        """Give credit for so many of the next steps that are due: something has changed, and they tell what."""
        self._credits = max(self._credits, steps)

    def affords(self, mask: int, step: int, now: float) -> bool:
        """Return whether step `step` may take `mask`: it is on the grid and keeps the promise, or is on credit."""
        if self.budget is None or mask == 0:
            return True
        if self._credits > 0:
            self._credits -= 1
            return True
        # Not by a step alone of which little is due: those that come have more, and nothing would be left for them.
        foreseen = max(self._foreseen(mask), self._recorded_secs / max(1, self._recorded_steps - 1))
        allowed = self._tensors_secs(now)
        short = foreseen * self._steps > _SHORT_SHARE * self._bare_secs(now)
        if short or not self.keeps_grace:
            self._grace_secs = SHORT_STEPS_GRACE_SECS if short else GRACE_SECS
        left = self._tensors_left_secs(allowed)
        thinned = _thinned_interval(step, _steps_an_octave((1 - _NUMBERS_SHARE) * self._grace_secs, foreseen))
        self.interval_steps = min(self._interval(foreseen, allowed, left), thinned)
        return step % self.interval_steps == 0 and left >= foreseen

    def has_room_for(self, mask: int, now: float) -> bool:
        """Return whether `mask` can be taken now within the budget, whatever step it is."""
        return self.budget is None or self._tensors_left_secs(self._tensors_secs(now)) >= self._foreseen(mask)

    def affords_evaluation(self, mask: int, now: float) -> bool:
        """Return whether an evaluation may take `mask`: there is room for what it will cost, or it is on credit."""
        if self.budget is None or mask == 0:
            return True
        self._evaluation_on_credit = self._evaluation_credits > 0
        if self._evaluation_on_credit:
            self._evaluation_credits -= 1
            return True
        return self._tensors_left_secs(self._tensors_secs(now)) >= self._evaluations.get(mask, 0.0)

    def evaluation_goes_on(self, mask: int, now: float) -> bool:
        """Return whether the evaluation under way may be read on; nobody knows how long one is before its end."""
        if self.budget is None or mask == 0 or self._tensors_left_secs(self._tensors_secs(now)) >= 0:
            return True
        if self._evaluation_on_credit and self._step_secs <= _OPENING_EVALUATION_SECS:
            return True
        # Twice as much is waited for before the next one is tried.
        self._evaluations[mask] = 2 * max(self._step_secs, self._evaluations.get(mask, 0.0))
        return False

    def affords_numbers(self, step: int, now: float) -> bool:
        """Return whether step `step` may take plain numbers (the loss): they keep the promise, or are on their grid.

        What is not counted pays for fewer and fewer of them, likewise, so that it lasts.
        """
        if self.budget is None or self._credits > 0:
            return True
        left, foreseen = self._numbers_left_secs(now), self._foreseen(0)
        if left - _NUMBERS_SHARE * self._grace_secs >= foreseen:
            return True
        return left >= foreseen and step % _thinned_interval(step, _NUMBERS_AN_OCTAVE) == 0

    def steps_until_numbers(self, step_secs: float, now: float) -> int:
        """Return how many steps of that length it takes until plain numbers can be afforded again; at most 64.

        So that steps which are far too short for their price are passed over without even asking.
        """
        if self.budget is None or not step_secs > 0:
            return 0
        missing_secs = self._foreseen(0) - self._numbers_left_secs(now)
        a_step_secs = _NUMBERS_SHARE * _SEEN_SHARE * self.budget * step_secs
        return max(0, min(_LONGEST_SLEEP_STEPS, int(missing_secs / a_step_secs)))

    def _allowed_secs(self, now: float) -> float:
        return _SEEN_SHARE * (self.budget or 0.0) * self._bare_secs(now)

    def _bare_secs(self, now: float) -> float:
        """Return how long training took without capture and without pauses."""
        return max(0.0, self.elapsed_secs(now) - self._paused_secs - self.spent_secs)

    def _tensors_secs(self, now: float) -> float:
        """Return what all but plain numbers may cost by now: what those of every step leave, and at least a half."""
        allowed = self._allowed_secs(now)
        return allowed - min(_NUMBERS_SHARE * allowed, self._foreseen(0) * self._steps)

    def _tensors_left_secs(self, allowed: float) -> float:
        return (1 - _NUMBERS_SHARE) * self._grace_secs + allowed - (self.spent_secs - self._numbers_secs)

    def _numbers_left_secs(self, now: float) -> float:
        allowed = self._allowed_secs(now)
        others_secs = self.spent_secs - self._numbers_secs
        share = max(_NUMBERS_SHARE * allowed, allowed - others_secs)
        return _NUMBERS_SHARE * self._grace_secs + share - self._numbers_secs

    def _interval(self, foreseen: float, allowed: float, left: float) -> int:
        """Return the least power of two of steps that lie apart what the budget asks for; half of it in plenty."""
        a_step = allowed / self._steps if self._steps else 0.0
        if foreseen <= a_step:
            return 1
        if foreseen >= a_step * _MAX_INTERVAL_STEPS:
            return _MAX_INTERVAL_STEPS
        interval = 1 << math.ceil(math.log2(foreseen / a_step))
        return interval // 2 if left > GRACE_SECS + _PLENTY * foreseen else interval

    def _foreseen(self, mask: int) -> float:
        if mask in self._estimates:
            return self._estimates[mask]
        # A mask never seen costs at least what its dearest known part does.
        parts = [secs for known, secs in self._estimates.items() if known & mask == known]
        return max(parts, default=0.0)

    @property
    def budget_or_nan(self) -> float:
        """The budget; NaN where there is none."""
        return math.nan if self.budget is None else self.budget


def _smooth(estimates: dict[int, float], mask: int, secs: float) -> None:
    before = estimates.get(mask)
    estimates[mask] = secs if before is None else before + _SMOOTHING * (secs - before)


def _steps_an_octave(grace_secs: float, foreseen_secs: float) -> int:
    """Return how many steps are recorded while their number doubles, so that the grace lasts for `_OCTAVES`.

    Example:
        >>> _steps_an_octave(0.25, 0.002), _steps_an_octave(0.25, 0.02), _steps_an_octave(0.25, 0.0)
        (16, 4, 32)
    """
    least, most = _STEPS_AN_OCTAVE
    if foreseen_secs * _OCTAVES * most <= grace_secs:
        return most
    return max(least, 1 << round(math.log2(max(1.0, grace_secs / (_OCTAVES * foreseen_secs)))))


def _thinned_interval(step: int, steps_an_octave: int) -> int:
    """Return how far apart steps are recorded around step `step`, so that each octave of a run has as many.

    Example:
        >>> [_thinned_interval(step, 32) for step in (0, 63, 64, 1000, 1720)]
        [1, 1, 2, 16, 32]
    """
    return 1 << max(0, (step // steps_an_octave).bit_length() - 1)
