"""How the training goes: the duration of its steps, its loss, and the steps that were recorded."""

from __future__ import annotations

from collections import deque

from barograph.capture.price import Price
from barograph.capture.step_times import StepTimes
from barograph.model.clock import Clock

_RECENT_STEPS = 64


class Progress:
    """Follows the training, for the heartbeat.

    Args:
        price: Notices that training goes on.
        clock: Time.

    Attributes:
        times: The duration of the parts of a step.
        last_end: When the last step ended, by the monotonic clock; None: none has.
        last_loss: The last loss; NaN: none was recorded.
        tensor_steps: Steps of which weights or gradients were recorded.
    """

    __slots__ = ("_clock", "_price", "_step_secs", "last_end", "last_loss", "tensor_steps", "times")

    def __init__(self, price: Price, clock: Clock) -> None:
        self.times = StepTimes(price, clock.monotonic)
        self.last_end: float | None = None
        self.last_loss = float("nan")
        self.tensor_steps = 0
        self._price = price
        self._clock = clock
        self._step_secs: deque[float] = deque(maxlen=_RECENT_STEPS)

    def step_ended(self, at: float | None = None) -> float:
        """Note that a step has ended; return when.

        Args:
            at: When, by the monotonic clock. None: now.
        """
        now = self._clock.monotonic() if at is None else at
        if self.last_end is not None:
            self._step_secs.append(now - self.last_end)
        self.last_end = now
        self._price.hear(now)
        self.times.step_ended(now)
        return now

    def evaluation_ended(self) -> None:
        """Count what an evaluation cost, and its time, to no step."""
        self._price.forget_step()
        self.times.evaluation_ended(self._clock.monotonic())

    def took_tensors(self) -> None:
        """Count a step of which weights or gradients were recorded."""
        self.tensor_steps += 1

    def saw_loss(self, value: float) -> None:
        """Note the loss of this step."""
        self.last_loss = value

    @property
    def median_step_secs(self) -> float:
        """Median duration of the last steps; NaN: there are too few."""
        # By hand: a module of the name `statistics` in the script's folder must not be imported for us.
        steps = sorted(self._step_secs)
        return steps[len(steps) // 2] if steps else float("nan")
