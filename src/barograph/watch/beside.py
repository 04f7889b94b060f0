"""Reads the same steps of another run, for rules that compare two runs.

The reader keeps no state: after a restart it reads the other run from its first step up to the current step.
"""

from __future__ import annotations

from collections import deque

from barograph.errors import BarographError
from barograph.model.clock import Clock
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.runs.reading.feed import Feed
from barograph.runs.reading.view import StepView
from barograph.store.base import Store

AGAIN_SECS = 10.0
"""Seconds between two reads of a running or unreadable run; each is a request to its store."""

_MOST_HELD = 1024
"""Steps of the other run kept in memory until the watched run reaches them."""

_NO_STEPS = frozenset({Kind.MACHINE, Kind.TIME, Kind.VITAL})

_LOGGED = _NO_STEPS | {Kind.SCALAR, Kind.CUSTOM}
"""A chunk makes separate views of what the script logs when the step itself is in another chunk."""

_Stream = tuple[str, str, str, bool]
"""Group, mode and optimizer of a step, and whether it contains only logged values."""

_Name = tuple[_Stream, int]
"""A stream, and the number of a step in it."""


class Beside:
    """Finds steps of another run.

    Two steps are the same if group, mode, optimizer and number match, and both or neither contain only logged values.
    If several match (repeated evaluations), the first corresponds to the first. In a resumed run, the steps as first
    recorded count.

    Args:
        store: Store of the other run.
        clock: Time between two reads.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._begin()

    def _begin(self) -> None:
        self._feed = Feed(self._store, clock=self._clock, patient=False)
        self._coming: deque[StepView] = deque()
        self._held: dict[_Name, list[StepView]] = {}
        self._read: dict[_Stream, int] = {}
        self._asked: tuple[_Name, int] | None = None
        self._furthest: dict[_Stream, int] = {}
        self._next_look: float | None = None
        self._ended = False

    def of(self, view: StepView) -> StepView | None:
        """Return the same step of the other run; None if the other run did not record it or has not reached it.

        Raises:
            BarographError: The other run cannot be read; the next call tries again.
        """
        if view.kinds <= _NO_STEPS:
            return None
        name = _name(view)
        stream, number = name
        if number < self._furthest.get(stream, -1):
            self._begin()  # the watched run was started again, and its steps went back
        self._furthest[stream] = number
        before = self._asked[1] + 1 if self._asked is not None and self._asked[0] == name else 0
        self._asked = (name, before)
        while self._read.get(stream, -1) <= number and not self._is_past(view) and self._take_next():
            pass
        for passed in [known for known in self._held if known[0] == stream and known[1] < number]:
            del self._held[passed]
        found = self._held.get(name, [])
        return found[before] if before < len(found) else None

    def _is_past(self, view: StepView) -> bool:
        """Return whether the other run's training has passed this evaluation or log."""
        step = view.step
        return (step.mode is not Mode.TRAIN or view.kinds <= _LOGGED) and any(
            number > step.number for (group, mode, _, logged), number in self._read.items()
            if group == view.group and mode == Mode.TRAIN and not logged)

    def _take_next(self) -> bool:
        """Read one more step of the other run; return whether there was one."""
        if not self._coming and not self._look():
            return False
        view = self._coming.popleft()
        if not view.kinds <= _NO_STEPS:
            name = _name(view)
            self._read[name[0]] = max(name[1], self._read.get(name[0], -1))
            if view.attempt == 0 or name not in self._held:
                self._held.setdefault(name, []).append(view)
            while len(self._held) > _MOST_HELD:
                del self._held[next(iter(self._held))]
        return True

    def _look(self) -> bool:
        now = self._clock.monotonic()
        if self._ended or (self._next_look is not None and now < self._next_look):
            return False
        try:
            while True:
                result = self._feed.poll()
                self._coming.extend(result.views)
                self._ended = result.ended
                if self._coming or not result.more:
                    break
        except BarographError:
            self._next_look = now + AGAIN_SECS
            raise
        # After new steps, more may follow at once; after none, wait.
        self._next_look = None if self._coming else now + AGAIN_SECS
        return bool(self._coming)


def _name(view: StepView) -> _Name:
    return (view.group, view.step.mode.value, view.step.optimizer, view.kinds <= _LOGGED), view.step.number
