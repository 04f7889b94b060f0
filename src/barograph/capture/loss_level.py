"""Where the loss stands, so that a jump out of it is noticed while the step that made it is under way."""

from __future__ import annotations

import math

_LEAST_LOSSES = 20
_SMOOTHING = 0.1
_TIMES = 4.0


class LossLevel:
    """A running level of the loss, and of how far single losses lie from it: a few operations a step.

    A jump is no finding: rules judge by robust windows. It only says that the next steps are worth a closer look.
    """

    __slots__ = ("_count", "_level", "_scatter")

    def __init__(self) -> None:
        self._count = 0
        self._level = 0.0
        self._scatter = 0.0

    def jumps(self, loss: float) -> bool:
        """Take in a loss; return whether it lies far above those before it, of which there are enough, or is no number.

        Example:
            >>> level = LossLevel()
            >>> [level.jumps(loss) for loss in [1.0] * 30 + [1.1, 9.0]][-2:]
            [False, True]
        """
        if not math.isfinite(loss):
            return self._count > 0
        away = loss - self._level
        high = (self._count >= _LEAST_LOSSES and away > _TIMES * self._scatter
                and away > (_TIMES - 1.0) * abs(self._level))
        self._count += 1
        share = max(_SMOOTHING, 1.0 / self._count)
        self._level += share * away
        self._scatter += share * (abs(away) - self._scatter)
        return high
