"""Device time of statistics, measured by alternating steps with and without them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

FEW = 3
"""Minimum number of timed steps of each kind."""

MOST = 16
"""Maximum number of timed steps of each kind: timing waits for each, which delays a training that runs ahead."""

_SIGMA_TO_MAD = 1.4826
_MEDIAN_TO_MEAN = 1.2533
"""For normal numbers, ratio of standard deviation to median deviation, and of the errors of median and mean."""


class Surplus:
    """The additional time of a step with statistics.

    Args:
        most: Maximum number of timed steps with statistics.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._secs: dict[bool, list[float]] = {False: [], True: []}

    def add(self, secs: float, *, recorded: bool) -> None:
        """Add the duration of a step, with or without statistics."""
        self._secs[recorded].append(secs)

    def wants(self, *, recorded: bool) -> bool:
        """Return whether to time another step of that kind; both kinds alternate, because a machine's speed varies."""
        mine, others = len(self._secs[recorded]), len(self._secs[not recorded])
        return mine < self._most and (mine < others or (recorded and mine < max(FEW, others + 1)))

    @property
    def lacks_plain(self) -> bool:
        """Whether there are so few steps without statistics that one should be made for timing."""
        return len(self._secs[False]) < FEW <= len(self._secs[True])

    def forget(self) -> None:
        """Reset, because the step is made differently from now on."""
        self._secs = {False: [], True: []}

    @property
    def secs(self) -> float:
        """Difference of the medians; 0 while there is nothing to compare."""
        return max(0.0, self._compared()[0])

    @property
    def likely_secs(self) -> float:
        """Upper estimate of the difference, right five times of six: the difference of the medians plus its standard
        error.

        With few steps on a busy machine, the difference alone is too small half of the time, and the budget would be
        exceeded for the rest of the training.
        """
        return max(0.0, sum(self._compared()))

    def _compared(self) -> tuple[float, float]:
        """Return the difference of the medians and its standard error; zeros while there is nothing to compare."""
        recorded, plain = self._secs[True], self._secs[False]
        if not recorded or not plain:
            return 0.0, 0.0
        more = statistics.median(recorded) - statistics.median(plain)
        return more, math.hypot(_error_of(recorded), _error_of(plain))


def _error_of(secs: Sequence[float]) -> float:
    """Return the standard error of the median, robust against single delayed steps."""
    middle = statistics.median(secs)
    deviation = statistics.median(abs(one - middle) for one in secs)
    return _MEDIAN_TO_MEAN * _SIGMA_TO_MAD * deviation / math.sqrt(len(secs))
