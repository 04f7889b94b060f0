"""The time that a training waits for Barograph to start, which is not part of the cost of a step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from barograph.capture.price import Price
from barograph.capture.thread_clock import cpu_secs
from barograph.model.clock import Clock


class Startup:
    """Measures start-up.

    Args:
        price: Not charged for it.
        clock: Clock of the training time in `price`.

    Attributes:
        secs: Seconds that training has waited.
        cpu_secs: Processor time of the training thread in it, which an entry point must not charge again.
    """

    __slots__ = ("_clock", "_price", "cpu_secs", "secs")

    def __init__(self, price: Price, clock: Clock) -> None:
        self._price = price
        self._clock = clock
        self.secs = 0.0
        self.cpu_secs = 0.0

    def add(self, secs: float, used_secs: float = 0.0) -> None:
        """Add time.

        Args:
            secs: Wall time.
            used_secs: Processor time of this thread meanwhile, if an entry point would charge it.
        """
        self.secs += secs
        self.cpu_secs += used_secs

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the duration of a `with` block as start-up."""
        begin, cpu_begin = time.perf_counter(), cpu_secs()
        try:
            yield
        finally:
            self.add(time.perf_counter() - begin, cpu_secs() - cpu_begin)

    @contextmanager
    def apart_from_training(self, *, ours: bool = True) -> Iterator[None]:
        """Count one-time work in a `with` block, which may contain others, as start-up instead of training.

        Args:
            ours: The whole block belongs to the recording. Otherwise only what the price was charged with meanwhile;
                the rest is the script's own, such as compiling its step.
        """
        begin, cpu_begin, waited_secs = time.perf_counter(), cpu_secs(), self._price.waited_secs()
        before, cpu_before, spent_secs = self.secs, self.cpu_secs, self._price.spent_secs
        paused_secs = self._price.paused_secs
        try:
            yield
        finally:
            secs, charged_secs = time.perf_counter() - begin, self._price.spent_secs - spent_secs
            self._price.charge(-charged_secs)
            if ours:
                self.secs, self.cpu_secs = before + secs, cpu_before + cpu_secs() - cpu_begin
            else:
                self.add(charged_secs, charged_secs)
            self._price.pass_over(secs, self._clock.monotonic(), waited_before_secs=waited_secs,
                                  paused_before_secs=paused_secs)
