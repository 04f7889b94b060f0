"""Where the optimizers of a resumed training begin again, and what was written before that still counts.

TensorBoard's mark of a restart supersedes every curve from its step on. Optimizers that count differently begin again
at steps of their own, so what the mark takes away and still counts is written once more behind it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from barograph.export.event_values import optimizer_in
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.runs.reading.view import StepView
from barograph.wire.events import event_from_message

_BESIDE = frozenset({Kind.SCALAR, Kind.CUSTOM, Kind.TIME, Kind.MACHINE, Kind.VITAL})
"""What comes without a step of training, too."""


class Restart(NamedTuple):
    """Steps that are made anew from here on.

    Attributes:
        starts: Optimizer to its first step.
        common: First step of what is no optimizer's; None: that goes on as it is.
        optimizers: All that are known, with those that do not begin here.
        since_unix: What is no optimizer's is of this attempt from then on, and counts.
    """

    starts: Mapping[str, int]
    common: int | None
    optimizers: Collection[str]
    since_unix: float = math.inf

    def first(self, mode: Mode) -> int:
        """Return the first step of a mode that is superseded, of whatever."""
        return min(self.starts.values()) + _later(mode)

    @property
    def supersedes_all(self) -> bool:
        """Whether nothing that stands there from the first step on still counts."""
        return set(self.optimizers) == set(self.starts) and len(self.starts) == 1

    def counting(self, events: Iterable[bytes], mode: Mode) -> Iterator[bytes]:
        """Yield the events that still count, of those that hold values."""
        for message in events:
            event = event_from_message(memoryview(message))
            optimizer = optimizer_in(event.values[0].tag, self.optimizers)
            limit = self.starts.get(optimizer, None if optimizer else self.common)
            is_new = not optimizer and event.time_unix >= self.since_unix
            if limit is None or is_new or event.step < limit + _later(mode):
                yield message


class _Start(NamedTuple):
    """With what an optimizer began in an attempt."""

    attempt: int
    step: int
    time_unix: float


class Restarts:
    """Knows which attempt each optimizer is at, and where it began there.

    Args:
        begun: Group, optimizer and how it began, as `told` gave it.
    """

    def __init__(self, begun: Iterable[Sequence[Any]] = ()) -> None:
        self._begun: dict[str, dict[str, _Start]] = {}
        for group, optimizer, *start in begun:
            self._begun.setdefault(group, {})[optimizer] = _Start(*start)

    def told(self) -> list[list[Any]]:
        """Return what is known as JSON data."""
        return [[group, optimizer, *start] for group, begun in self._begun.items()
                for optimizer, start in begun.items()]

    def at(self, view: StepView, coming: Iterable[StepView]) -> Restart | None:
        """Return what begins anew with a step; None where nothing does.

        Args:
            view: The step.
            coming: It, and what follows it as far as that is known: another optimizer may begin there.
        """
        begun = self._begun.setdefault(view.group, {})
        before = {optimizer: start for optimizer, start in begun.items() if start.attempt == view.attempt}
        if not trains(view) or view.step.optimizer in before:
            return None
        is_resumed = len(before) < len(begun)
        starts: dict[str, int] = {}
        for item in coming if is_resumed else (view,):
            optimizer, step = item.step.optimizer, item.step
            if (item.group, item.attempt) == (view.group, view.attempt) and trains(item) and \
                    optimizer not in before and optimizer not in starts:
                starts[optimizer] = step.number
                begun[optimizer] = _Start(view.attempt, step.number, step.time_unix)
        if not is_resumed:
            return None
        # Which optimizer counts furthest is not known before each has begun, and what is cut does not come back.
        have_all = all(start.attempt == view.attempt for start in begun.values())
        common = max(start.step for start in begun.values()) if have_all else None
        since_unix = min((start.time_unix for start in before.values()), default=math.inf)
        return Restart(starts, common, tuple(begun), since_unix)


def trains(view: StepView) -> bool:
    """Return whether a view holds a step of training, and not only what comes beside one."""
    return view.step.mode is Mode.TRAIN and bool(view.kinds - _BESIDE)


def _later(mode: Mode) -> int:
    """Return how much later than a training an evaluation is superseded: it carries the number of steps made before."""
    return int(mode is not Mode.TRAIN)
