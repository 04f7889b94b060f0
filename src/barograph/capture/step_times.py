"""The parts of a step's time: waiting for data, forward, backward, optimizer, Barograph, other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barograph.model.key import Key, Kind

if TYPE_CHECKING:
    from barograph.capture.price import Price

REPORT_SECS = 0.5
"""Minimum time between two reports."""

STEP, DATA, FORWARD, BACKWARD, OPTIMIZER, CAPTURE, OTHER, STEPS, LONGEST = (
    Key(Kind.TIME, path)
    for path in ("step", "data", "forward", "backward", "optimizer", "capture", "other", "steps", "longest")
)


class Part:
    """One timed phase of the steps, without the time of capture.

    Attributes:
        mean_secs: Mean duration in the last reported steps; None: never timed.
    """

    __slots__ = ("_at", "_clock", "_in_step", "_price", "_secs", "_steps", "mean_secs")

    def __init__(self, price: Price, clock: Callable[[], float]) -> None:
        self._price, self._clock = price, clock
        self._at: float | None = None
        self._in_step = 0.0
        self._secs = 0.0
        self._steps = 0
        self.mean_secs: float | None = None

    def begins(self) -> None:
        """Note its start; nested starts count once."""
        if self._at is None:
            self._at = self._clock() - self._price.spent_secs

    def ended(self) -> None:
        """Note its end."""
        if self._at is not None:
            self._in_step += self._clock() - self._price.spent_secs - self._at
            self._at = None

    def step_ended(self, *, counts: bool) -> None:
        """Note the end of the step; without `counts`, discard its times."""
        self._at = None  # after an exception it has no end
        if self._in_step:
            if counts:
                self._secs += self._in_step
                self._steps += 1
            self._in_step = 0.0

    def update(self) -> None:
        """Update the mean over the steps since the last report; keep it if none was timed."""
        if self._steps:
            self.mean_secs = self._secs / self._steps
            self._secs, self._steps = 0.0, 0


class StepTimes:
    """Sums the time of each phase of the steps in the training thread, for a microsecond or two per step.

    A step lasts from the end of the previous one to its own end. The first one, which contains start-up, and
    evaluations are left out. Forward, backward and optimizer are timed only in observed steps, which under a budget are
    not all, and represent the others; data, capture and the total are timed in every step. On an asynchronous device,
    forward and backward are the time to enqueue the work.

    Attributes:
        data_secs: Total time waiting for data.
        forward, backward, optimizer: Phases timed by their start and end.

    Args:
        price: Has the time spent by capture.
        clock: Seconds of the clock used by `price`.
    """

    def __init__(self, price: Price, clock: Callable[[], float]) -> None:
        self.data_secs = 0.0
        self.forward, self.backward, self.optimizer = (Part(price, clock) for _ in range(3))
        self._price = price
        self._last_end: float | None = None
        self._data_mark = self._capture_mark = 0.0
        self._reported_at = 0.0
        self._steps = 0
        self._step_secs = self._data_secs = self._capture_secs = self._longest_secs = 0.0

    def step_ended(self, now: float) -> None:
        """Note that a step has ended."""
        last, self._last_end = self._last_end, now
        data, self._data_mark = self.data_secs - self._data_mark, self.data_secs
        capture, self._capture_mark = self._price.spent_secs - self._capture_mark, self._price.spent_secs
        for part in (self.forward, self.backward, self.optimizer):
            part.step_ended(counts=last is not None)
        if last is None:
            self._reported_at = now
            return
        secs = now - last
        self._steps += 1
        self._step_secs += secs
        self._data_secs += data
        self._capture_secs += capture
        if secs > self._longest_secs:
            self._longest_secs = secs

    def waited_for_data(self, secs: float) -> None:
        """Add time that the script has waited for data."""
        self.data_secs += secs

    def evaluation_ended(self, now: float) -> None:
        """Note that the current step only starts now, after an evaluation."""
        if self._last_end is not None:
            self._last_end = now
            self._data_mark, self._capture_mark = self.data_secs, self._price.spent_secs

    def take_means(self, now: float) -> dict[Key, float]:
        """Return the means over the steps since the last report; nothing shortly after one."""
        if not self._steps or now - self._reported_at < REPORT_SECS:
            return {}
        self._reported_at = now
        parts = {FORWARD: self.forward, BACKWARD: self.backward, OPTIMIZER: self.optimizer}
        for part in parts.values():
            part.update()
        found = {
            STEP: self._step_secs / self._steps, DATA: self._data_secs / self._steps,
            CAPTURE: self._capture_secs / self._steps, STEPS: float(self._steps), LONGEST: self._longest_secs,
            **{key: part.mean_secs for key, part in parts.items() if part.mean_secs is not None},
        }
        if FORWARD in found and BACKWARD in found:
            known = sum(found.get(key, 0.0) for key in (DATA, FORWARD, BACKWARD, OPTIMIZER, CAPTURE))
            found[OTHER] = max(0.0, found[STEP] - known)
        self._forget()
        return found

    def _forget(self) -> None:
        self._steps = 0
        self._step_secs = self._data_secs = self._capture_secs = self._longest_secs = 0.0
