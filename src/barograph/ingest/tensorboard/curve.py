"""Points of one tag, and their merging after a restart of the training."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_YEAR_9999 = 253_370_764_800.0


@dataclass(slots=True)
class Curve:
    """Points in the order in which they were written.

    Attributes:
        steps, times, values: One per point; times are seconds since 1970 UTC.
    """

    steps: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: int, time_unix: float, value: float) -> None:
        """Add a point."""
        self.steps.append(step)
        self.times.append(time_unix)
        self.values.append(value)

    def extend(self, steps: NDArray[np.int64], times: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Add many points."""
        self.steps.frombytes(steps.astype(np.int64).tobytes())
        self.times.frombytes(times.astype(np.float64).tobytes())
        self.values.frombytes(values.astype(np.float64).tobytes())

    def drop_from(self, step: int) -> int:
        """Drop the points from this step on; return how many."""
        steps = np.frombuffer(self.steps, np.int64)
        stays = np.flatnonzero(steps < step)
        dropped = len(steps) - len(stays)
        if dropped:
            self.steps = array("q", steps[stays].tobytes())
            self.times = array("d", np.frombuffer(self.times)[stays].tobytes())
            self.values = array("d", np.frombuffer(self.values)[stays].tobytes())
        return dropped

    def go_on(self, later: Curve) -> int:
        """Append the points of a later file, replacing those that it repeats; return how many were replaced.

        A restart at a step repeats all later ones, even if at other steps.
        """
        dropped = self.drop_from(min(later.steps)) if later.steps else 0
        self.steps += later.steps
        self.times += later.times
        self.values += later.values
        return dropped


@dataclass(frozen=True, slots=True)
class Line:
    """A curve with each step once, ascending; the last value wins.

    Attributes:
        steps, times, values: As in `Curve`. Times never decrease, even if the clock was set back.
        again: Number of points replaced by a later one at the same step.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    again: int = 0

    def __len__(self) -> int:
        return len(self.steps)


def line_of(curve: Curve) -> Line:
    """Return the line of a curve.

    Example:
        >>> curve = Curve()
        >>> for step, value in ((1, 0.5), (0, 0.9), (1, 0.4)):
        ...     curve.add(step, 7.0, value)
        >>> line = line_of(curve)
        >>> line.steps.tolist(), line.values.tolist(), line.again
        ([0, 1], [0.9, 0.4], 1)
    """
    steps = np.frombuffer(curve.steps, np.int64)
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    last = np.ones(len(order), bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    kept = order[last]
    times = np.frombuffer(curve.times)[kept]
    return Line(steps[kept], rising(times), np.frombuffer(curve.values)[kept].copy(), len(order) - len(kept))


def rising(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return non-decreasing times; an invalid one is replaced by the previous.

    Example:
        >>> rising(np.array([5.0, 4.0, np.nan, 1e300, 6.0])).tolist()
        [5.0, 5.0, 5.0, 5.0, 6.0]
    """
    known = np.where((times >= 0) & (times < _YEAR_9999), times, 0.0)
    found: NDArray[np.float64] = np.maximum.accumulate(known) if len(known) else known
    return found
