"""Device time of statistics, measured by alternating steps with and without them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

FEW = 3
"""Steps of each kind that are timed in any case."""

MOST = 16
"""Steps of each kind that are timed: each is waited for, which a training that is far ahead of its device feels."""

_SIGMA_TO_MAD = 1.4826
_MEDIAN_TO_MEAN = 1.2533
"""Of normal numbers: the standard deviation beside the median deviation, and the error of a median beside a mean's."""


class Surplus:
    """The additional time of a step with statistics.

    Args:
        most: Steps with statistics that are timed, at most.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._secs: dict[bool, list[float]] = {False: [], True: []}

    def add(self, secs: float, *, told: bool) -> None:
        """Note what a step took, with statistics or without."""
        self._secs[told].append(secs)

    def wants(self, *, told: bool) -> bool:
        """Return whether another step of that kind is to be timed; both keep pace, for a machine changes its own."""
        mine, others = len(self._secs[told]), len(self._secs[not told])
        return mine < self._most and (mine < others or (told and mine < max(FEW, others + 1)))

    @property
    def lacks_plain(self) -> bool:
        """Whether steps without statistics are so few beside those with them that one should be made for this."""
        return len(self._secs[False]) < FEW <= len(self._secs[True])

    def forget(self) -> None:
        """Begin anew: from now on the step is made another way."""
        self._secs = {False: [], True: []}

    @property
    def secs(self) -> float:
        """The difference of the medians; 0 as long as there is nothing to compare."""
        return max(0.0, self._compared()[0])

    @property
    def likely_secs(self) -> float:
        """What it is at most, five times of six: the difference of the medians, and its standard error.

        Of few steps on a busy machine the difference alone is too small half of the time, and a budget that is told so
        is overspent for the rest of the training.
        """
        return max(0.0, sum(self._compared()))

    def _compared(self) -> tuple[float, float]:
        """Return the difference of the medians and its standard error; zeros where there is nothing to compare."""
        told, plain = self._secs[True], self._secs[False]
        if not told or not plain:
            return 0.0, 0.0
        more = statistics.median(told) - statistics.median(plain)
        return more, math.hypot(_error_of(told), _error_of(plain))


def _error_of(secs: Sequence[float]) -> float:
    """Return the standard error of the median, from what does not feel a single step that was held up."""
    middle = statistics.median(secs)
    deviation = statistics.median(abs(one - middle) for one in secs)
    return _MEDIAN_TO_MEAN * _SIGMA_TO_MAD * deviation / math.sqrt(len(secs))
