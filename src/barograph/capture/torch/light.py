"""Steps of which only numbers are recorded: a few operations each, published in batches.

For short steps, our code per step matters: a batch does most of it once.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from barograph.capture.session import LightNumbers, Session
from barograph.capture.thread_clock import cpu_secs
from barograph.capture.torch.optimizer_entry import Entry
from barograph.model.key import Key

_MOST_STEPS = 32
_LONGEST_SECS = 0.1
_TIMED_EVERY = 8
"""Every n-th step is timed, and represents the others: reading the clock costs as much as the rest."""

TOTAL = "total"
"""Path of the loss on which `backward` is called."""

_Row = tuple[list[Any], float, list[float]]


class LightSteps:
    """The unpublished steps of one optimizer.

    Call `stop` before recording anything else.

    Attributes:
        left: Number of steps that may still be collected; 0: each step is handled separately.

    Args:
        session: Publishes.
        missed: Called with the number of backward passes that were not inspected.
        pass_on: Called with the numbers of an incomplete step: path or key, and number, alternating.
    """

    __slots__ = (
        "_begun",
        "_entry",
        "_high",
        "_missed",
        "_optimizer",
        "_pass_on",
        "_rates_wanted",
        "_rows",
        "_session",
        "_used",
        "_values",
        "left",
    )

    def __init__(self, session: Session, missed: Callable[[int], None],
                 pass_on: Callable[[list[Any]], None]) -> None:
        self._pass_on = pass_on
        self.left = 0
        self._session = session
        self._missed = missed
        self._optimizer: Callable[[], Any] = lambda: None
        self._entry: Entry | None = None
        self._rows: list[_Row] = []
        self._values: list[Any] = []
        self._high = math.inf
        self._begun = self._used = 0.0
        self._rates_wanted = True

    def begin(self, entry: Entry, optimizer: Any, steps: int, *, rates_wanted: bool) -> None:
        """Collect this many steps of an optimizer, at most a batch."""
        self.left = min(steps, _MOST_STEPS)
        self._entry, self._optimizer, self._rates_wanted = entry, weakref.ref(optimizer), rates_wanted
        self._begun, self._high = self._session.clock.monotonic(), self._session.choice.level.high

    def is_of(self, optimizer: Any) -> bool:
        """Return whether steps of this optimizer are being collected."""
        return self.left > 0 and self._optimizer() is optimizer

    def take_loss(self, path: str, number: float) -> bool:
        """Collect a value of a loss; False: it is non-finite or far above earlier ones, and must be inspected."""
        if -math.inf < number < self._high:
            self._values += (path, number)
            return True
        return False

    def take_number(self, key: Key, number: float) -> None:
        """Collect another number of the current step."""
        self._values += (key, number)

    def end_step(self, optimizer: Any) -> bool:
        """End the current step; return whether more are collected."""
        begin = 0.0 if self.left % _TIMED_EVERY else cpu_secs()
        now = self._session.clock.monotonic()
        rates = [group["lr"] for group in optimizer.param_groups] if self._rates_wanted else []
        self._rows.append((self._values, now, rates))
        self._values = []
        self.left -= 1
        if self._session.output.fed_by is not None and self._entry is not None:
            self._session.hand_over_fed(self._entry.label, ahead=len(self._rows) - 1)
        if begin:
            # The losses of a step cost about as much as its end.
            self._used += 2 * _TIMED_EVERY * (cpu_secs() - begin)
        if self.left and now - self._begun < _LONGEST_SECS:
            return True
        self.publish()
        self.left = 0
        return False

    @property
    def steps(self) -> int:
        """Number of complete, unpublished steps."""
        return len(self._rows)

    def publish(self) -> None:
        """Publish the complete steps; numbers of the current step remain."""
        rows, entry = self._rows, self._entry
        if not rows or entry is None:
            return
        begin, session = cpu_secs(), self._session
        self._rows = []
        session.end_light_steps(entry.label, self._summed(rows))
        self._missed(sum(values.count(TOTAL) for values, _, _ in rows))
        session.price.charge(cpu_secs() - begin + self._used)
        session.price.end_step(0)
        self._used = 0.0

    def _summed(self, rows: list[_Row]) -> Iterator[tuple[LightNumbers, float, list[float]]]:
        """Yield the numbers of each step, summed, and note its loss."""
        for values, at, rates in rows:
            numbers: dict[Any, tuple[float, int]] = {}
            for place in range(0, len(values), 2):
                path, number = values[place], values[place + 1]
                if path in numbers:
                    total, count = numbers[path]
                    numbers[path] = total + number, count + 1
                else:
                    numbers[path] = number, 1
                if path == TOTAL:
                    self._session.saw_loss(number)
            yield numbers, at, rates

    def stop(self) -> None:
        """Publish the collected steps, and pass on the numbers of the current step."""
        if not self.left:
            return
        self.left = 0
        self.publish()
        values, self._values = self._values, []
        if values:
            self._pass_on(values)
