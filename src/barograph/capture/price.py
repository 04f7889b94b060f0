"""Keeps capture under its budget, and says what it cost."""

from __future__ import annotations

import math

_OPENING_STEPS = 10
_SMOOTHING = 0.3


class Price:
    """Measures what capture costs and decides when the next step can be afforded.

    The promise is over the run: capture's share of the time that training takes without it is at most
    `budget`. The first steps say most about initialisation, so the first ten that are due are recorded
    on credit, and paid back before any other.

    All times are seconds of one monotonic clock.

    Args:
        budget: Greatest share, above 0; None: no limit.
    """

    def __init__(self, budget: float | None) -> None:
        self.budget = budget
        self.spent_secs = 0.0
        self._start: float | None = None
        self._estimates: dict[int, float] = {}
        self._credits = _OPENING_STEPS

    def start(self, now: float) -> None:
        """Begin to count training time; later calls do nothing."""
        if self._start is None:
            self._start = now

    def elapsed_secs(self, now: float) -> float:
        """Return the wall time since training began; 0 before it did."""
        return now - self._start if self._start is not None else 0.0

    def charge(self, secs: float) -> None:
        """Add to what was spent in the training thread."""
        self.spent_secs += secs

    def learn(self, mask: int, secs: float) -> None:
        """Note what a step that took `mask` cost, to foresee the next."""
        before = self._estimates.get(mask)
        self._estimates[mask] = secs if before is None else before + _SMOOTHING * (secs - before)

    def affords(self, mask: int, now: float) -> bool:
        """Return whether a step that takes `mask` keeps the promise, or may be had on credit."""
        if self.budget is None or mask == 0:
            return True
        if self._credits > 0:
            self._credits -= 1
            return True
        bare_secs = self.elapsed_secs(now) - self.spent_secs
        return self.spent_secs + self._foreseen(mask) <= self.budget * bare_secs

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
