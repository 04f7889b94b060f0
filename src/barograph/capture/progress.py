"""Progress of the training: duration of steps, loss, and number of recorded steps."""

from __future__ import annotations

from collections import deque

from barograph.capture.price import Price
from barograph.capture.step_times import StepTimes
from barograph.model.clock import Clock

_RECENT_STEPS = 64


class Progress:
    """Follows the training, for the heartbeat.

    Args:
        price: Measures training time.
        clock: Time.

    Attributes:
        times: Durations of the phases of a step.
        last_end: End of the last step by the monotonic clock; None: no step yet.
        last_loss: Last loss; NaN: none recorded.
        tensor_steps: Number of steps with recorded weights or gradients.
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
        """Note the end of a step; return its time.

        Args:
            at: Time by the monotonic clock. None: now.
        """
        now = self._clock.monotonic() if at is None else at
        if self.last_end is not None:
            self._step_secs.append(now - self.last_end)
        self.last_end = now
        self._price.hear(now)
        self.times.step_ended(now)
        return now

    def evaluation_ended(self) -> None:
        """Exclude the cost and the duration of an evaluation from steps."""
        self._price.forget_step()
        self.times.evaluation_ended(self._clock.monotonic())

    def took_tensors(self) -> None:
        """Count a step with recorded weights or gradients."""
        self.tensor_steps += 1

    def saw_loss(self, value: float) -> None:
        """Note the loss of this step."""
        self.last_loss = value

    @property
    def median_step_secs(self) -> float:
        """Median duration of the last steps; NaN: too few."""
        # Not with `statistics`: a module with that name in the script's folder must not be imported.
        steps = sorted(self._step_secs)
        return steps[len(steps) // 2] if steps else float("nan")
