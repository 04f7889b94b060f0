"""Detects series that count epochs, and converts them to training steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from barograph.ingest.tensorboard.curve import Line

_FEWEST = 2
_TIMES_APART = 3
_SHARE = 0.6


def steps_at(line: Line, times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the last step of a line at each time; the first step for earlier times.

    Args:
        line: With at least one point.
        times: Seconds since 1970 UTC.
    """
    places = np.searchsorted(line.times, times, side="right") - 1
    return line.steps[np.maximum(places, 0)]


def counts_slower(line: Line, training: Line) -> bool:
    """Return whether a line clearly counts something longer than training steps: epochs.

    It does if the training was at more than three times its step (and more than two losses further) when its last
    point, and most others, were written.

    Example:
        >>> def line(steps, times):
        ...     return Line(np.array(steps), np.array(times, float), np.zeros(len(steps)))
        >>> training = line(range(0, 1000, 10), range(100))
        >>> counts_slower(line([0, 1, 2], [33, 66, 99]), training)
        True
        >>> counts_slower(line([330, 660, 990], [33, 66, 99]), training)
        False
    """
    if len(line) < _FEWEST or len(training) <= len(line):
        return False
    gap = int(np.diff(training.steps).max())
    stood = steps_at(training, line.times)
    apart = stood > _TIMES_APART * line.steps + 2 * gap
    # The first points of a line that counts epochs may be inconclusive.
    return bool(apart[-1]) and float(apart.mean()) >= _SHARE


def counted_as(line: Line, training: Line) -> Line:
    """Return a line with its points moved to the training steps at which they were written."""
    steps = steps_at(training, line.times)
    last = np.ones(len(steps), bool)
    last[:-1] = steps[1:] != steps[:-1]
    return replace(line, steps=steps[last], times=line.times[last], values=line.values[last],
                   again=line.again + int((~last).sum()))
