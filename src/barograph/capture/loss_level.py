"""The running level of the loss, to detect a jump during the step that caused it."""

from __future__ import annotations

import math

_LEAST_LOSSES = 20
_SMOOTHING = 0.1
_TIMES = 4.0
_FEW_LOSSES = 5
_LEAP = 100.0
"""Factor over all earlier losses, of which there are a few, from which the inputs of a step are inspected."""


class LossLevel:
    """A running mean of the loss and of its absolute deviation.

    A jump is not a finding, for which rules use robust windows. It only triggers more detailed records of the next
    steps.
    """

    __slots__ = ("_count", "_greatest", "_level", "_scatter")

    def __init__(self) -> None:
        self._count = 0
        self._greatest = 0.0
        self._level = 0.0
        self._scatter = 0.0

    def jumps(self, loss: float) -> bool:
        """Add a loss; return whether it is non-finite, or far above the earlier ones, if there are enough.

        Example:
            >>> level = LossLevel()
            >>> [level.jumps(loss) for loss in [1.0] * 30 + [1.1, 9.0]][-2:]
            [False, True]
        """
        if not math.isfinite(loss):
            return self._count > 0
        high = loss > self.bound(_TIMES) and loss - self._level > (_TIMES - 1.0) * abs(self._level)
        self.take_in(loss)
        return high

    def leaps(self, loss: float) -> bool:
        """Return whether a loss is non-finite, or a hundred times all earlier ones, if there are a few; does not add
        it.

        Example:
            >>> level = LossLevel()
            >>> for number in [2.0, 1.0, 3.0, 1.0, 1.0]:
            ...     level.take_in(number)
            >>> level.leaps(200.0), level.leaps(400.0)
            (False, True)
        """
        if not math.isfinite(loss):
            return True
        return self._count >= _FEW_LOSSES and loss > _LEAP * self._greatest

    def bound(self, spreads: float) -> float:
        """Return the loss this many spreads above the level; infinite while there are too few losses.

        Example:
            >>> level = LossLevel()
            >>> level.bound(3.0)
            inf
            >>> for number in range(100):
            ...     level.take_in(1.0 + 0.1 * (-1) ** number)
            >>> 1.2 < level.bound(3.0) < 1.5
            True
        """
        return self._level + spreads * self._scatter if self._count >= _LEAST_LOSSES else math.inf

    def above(self, loss: float) -> float:
        """Return how far a loss is above the level.

        Example:
            >>> level = LossLevel()
            >>> level.take_in(1.0)
            >>> level.above(3.0)
            2.0
        """
        return loss - self._level

    @property
    def high(self) -> float:
        """The loss above which `jumps` currently returns True; infinite while there are too few losses.

        Example:
            >>> LossLevel().high
            inf
        """
        return max(self.bound(_TIMES), self._level + (_TIMES - 1.0) * abs(self._level))

    def take_in(self, loss: float) -> None:
        """Update the level with a finite loss."""
        away = loss - self._level
        self._count += 1
        self._greatest = max(self._greatest, abs(loss))
        share = max(_SMOOTHING, 1.0 / self._count)
        self._level += share * away
        self._scatter += share * (abs(away) - self._scatter)
