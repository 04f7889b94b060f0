"""Decides when the next checkpoint is due: by steps, by time, or by checkpoint cost and failure rate."""

from __future__ import annotations

import math

from barograph.model.checkpoints import CheckpointSettings

_FIRST_SECS = 30.0
"""With `auto`, time of the first checkpoint, which measures the cost."""
_WEIGHT = 0.5
"""Weight of the newest cost in the mean: stores and machines change."""


class Cadence:
    """Decides when a checkpoint is due.

    With `auto`, the interval is Young's (1974), a first-order optimum:

        interval = √(2 · cost · mean time between failures)

    Daly (2006) corrects it by the cost of one checkpoint if that is large relative to the time between failures; there,
    and below one cost, the interval is limited to the time between failures.

    Args:
        settings: Settings of the user.
        now_secs: Time by a monotonic clock.

    Example:
        >>> cadence = Cadence(CheckpointSettings(auto=True, mtbf_hours=1.0), now_secs=0.0)
        >>> cadence.took(10, 100.0, cost_secs=2.0)
        >>> cadence.interval_secs
        120.0
    """

    def __init__(self, settings: CheckpointSettings, *, now_secs: float) -> None:
        self._settings = settings
        self._steps: int | None = None
        self._at_secs = now_secs
        self.cost_secs = math.nan

    @property
    def interval_secs(self) -> float:
        """Seconds between checkpoints due by time; infinite if none are."""
        settings = self._settings
        intervals = [math.inf]
        if settings.every_minutes is not None:
            intervals.append(60 * settings.every_minutes)
        if settings.auto:
            intervals.append(_FIRST_SECS if math.isnan(self.cost_secs) else
                             best_interval_secs(self.cost_secs, 3600 * settings.mtbf_hours))
        return min(intervals)

    def begins(self, steps: int) -> None:
        """Note the number of earlier steps; called once."""
        if self._steps is None:
            self._steps = steps

    def due(self, steps: int, now_secs: float) -> bool:
        """Return whether a checkpoint is due after so many steps."""
        return self.due_by_steps(steps) or self.due_by_time(now_secs)

    def due_by_steps(self, steps: int) -> bool:
        """Return whether one is due by the number of steps, which is the same in each worker of a training."""
        every = self._settings.every_steps
        return every is not None and self._steps is not None and steps // every > self._steps // every

    def due_by_time(self, now_secs: float) -> bool:
        """Return whether the time that has passed makes one due."""
        return now_secs - self._at_secs >= self.interval_secs

    def took(self, steps: int, now_secs: float, *, cost_secs: float) -> None:
        """Note a saved checkpoint and its cost."""
        known = cost_secs if math.isnan(self.cost_secs) else self.cost_secs
        self.cost_secs = known + _WEIGHT * (cost_secs - known)
        self._steps, self._at_secs = steps, now_secs


def best_interval_secs(cost_secs: float, mtbf_secs: float) -> float:
    """Return the interval between checkpoints that minimizes the time lost by saving and by failures.

    interval = √(2 · cost · mtbf)

    Args:
        cost_secs: Cost of saving one, >= 0.
        mtbf_secs: Mean time between failures, above 0.

    Returns:
        At least the cost, at most the time between failures.

    Example:
        >>> best_interval_secs(2.0, 3600.0)
        120.0

    Source: J. W. Young, "A first order approximation to the optimum checkpoint interval", 1974; J. T. Daly, "A higher
        order estimate of the optimum checkpoint interval for restart dumps", 2006.
    """
    return min(max(math.sqrt(2 * cost_secs * mtbf_secs), cost_secs), mtbf_secs)
