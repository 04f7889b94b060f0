"""Restarts of a resumed training in TensorBoard event files.

TensorBoard's restart mark supersedes every curve from its step on. Each optimizer restarts at its own step, so events
that the mark removes but that are still valid are written again after it.
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
"""Kinds that also occur without a training step."""


class Restart(NamedTuple):
    """A restart: steps that are repeated.

    Attributes:
        starts: Optimizer to its first repeated step.
        common: First repeated step of values without an optimizer; None: these are not repeated.
        optimizers: All known optimizers, including those without a restart here.
        since_unix: Values without an optimizer belong to this attempt from this time on, and stay valid.
    """

    starts: Mapping[str, int]
    common: int | None
    optimizers: Collection[str]
    since_unix: float = math.inf

    def first(self, mode: Mode) -> int:
        """Return the first superseded step of a mode."""
        return min(self.starts.values()) + _later(mode)

    @property
    def supersedes_all(self) -> bool:
        """Whether no event from the first superseded step on is still valid."""
        return set(self.optimizers) == set(self.starts) and len(self.starts) == 1

    def counting(self, events: Iterable[bytes], mode: Mode) -> Iterator[bytes]:
        """Yield the events that are still valid."""
        for message in events:
            event = event_from_message(memoryview(message))
            optimizer = optimizer_in(event.values[0].tag, self.optimizers)
            limit = self.starts.get(optimizer, None if optimizer else self.common)
            is_new = not optimizer and event.time_unix >= self.since_unix
            if limit is None or is_new or event.step < limit + _later(mode):
                yield message


class _Start(NamedTuple):
    """First step of an optimizer in an attempt."""

    attempt: int
    step: int
    time_unix: float


class Restarts:
    """Tracks the attempt of each optimizer and where it began.

    Args:
        begun: State returned by `state`.
    """

    def __init__(self, begun: Iterable[Sequence[Any]] = ()) -> None:
        self._begun: dict[str, dict[str, _Start]] = {}
        for group, optimizer, *start in begun:
            self._begun.setdefault(group, {})[optimizer] = _Start(*start)

    def state(self) -> list[list[Any]]:
        """Return the state as JSON data."""
        return [[group, optimizer, *start] for group, begun in self._begun.items()
                for optimizer, start in begun.items()]

    def at(self, view: StepView, coming: Iterable[StepView]) -> Restart | None:
        """Return the restart that begins with a step; None if there is none.

        Args:
            view: The step.
            coming: The step and all known later ones: another optimizer may restart there.
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
        # The leading optimizer is unknown until each has begun, and removed events do not come back.
        have_all = all(start.attempt == view.attempt for start in begun.values())
        common = max(start.step for start in begun.values()) if have_all else None
        since_unix = min((start.time_unix for start in before.values()), default=math.inf)
        return Restart(starts, common, tuple(begun), since_unix)


def trains(view: StepView) -> bool:
    """Return whether a view has a training step."""
    return view.step.mode is Mode.TRAIN and bool(view.kinds - _BESIDE)


def _later(mode: Mode) -> int:
    """Return the offset at which evaluations are superseded: they carry the number of completed steps."""
    return int(mode is not Mode.TRAIN)
