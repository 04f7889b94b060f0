"""Where the optimizers of a resumed training begin again, and what was written before that still counts.

TensorBoard's mark of a restart supersedes every curve from its step on. Optimizers that count differently begin again
at steps of their own, so what the mark takes away and still counts is written once more behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from barograph.export.event_values import optimizer_in
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.runs.view import StepView
from barograph.wire.events import event_from_message

_BESIDE = frozenset({Kind.SCALAR, Kind.CUSTOM, Kind.TIME, Kind.MACHINE, Kind.VITAL})
"""What comes without a step of training, too."""


class Restart(NamedTuple):
    """Steps that are made anew from here on.

    Attributes:
        starts: Optimizer to its first step.
        common: First step of what is no optimizer's; None: that goes on as it is.
        optimizers: All that are known, with those that do not begin here.
    """

    starts: Mapping[str, int]
    common: int | None
    optimizers: Collection[str]

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
            if limit is None or event.step < limit + _later(mode):
                yield message


class Restarts:
    """Knows which attempt each optimizer is at.

    Args:
        begun: Group, optimizer and attempt, as `told` gave it.
    """

    def __init__(self, begun: Iterable[Sequence[Any]] = ()) -> None:
        self._begun: dict[str, dict[str, int]] = {}
        for group, optimizer, attempt in begun:
            self._begun.setdefault(group, {})[optimizer] = attempt

    def told(self) -> list[list[Any]]:
        """Return what is known as JSON data."""
        return [[group, *item] for group, begun in self._begun.items() for item in begun.items()]

    def at(self, view: StepView, coming: Iterable[StepView]) -> Restart | None:
        """Return what begins anew with a step; None where nothing does.

        Args:
            view: The step.
            coming: It, and what follows it as far as that is known: another optimizer may begin there.
        """
        begun = self._begun.setdefault(view.group, {})
        if not trains(view) or begun.get(view.step.optimizer) == view.attempt:
            return None
        is_resumed = any(attempt != view.attempt for attempt in begun.values())
        goes_on = view.attempt in begun.values()
        starts: dict[str, int] = {}
        for item in coming if is_resumed else (view,):
            optimizer = item.step.optimizer
            if (item.group, item.attempt) == (view.group, view.attempt) and trains(item) and \
                    begun.get(optimizer) != view.attempt:
                starts.setdefault(optimizer, item.step.number)
        begun.update(dict.fromkeys(starts, view.attempt))
        common = None if goes_on else max(starts.values())
        return Restart(starts, common, tuple(begun)) if is_resumed else None


def trains(view: StepView) -> bool:
    """Return whether a view holds a step of training, and not only what comes beside one."""
    return view.step.mode is Mode.TRAIN and bool(view.kinds - _BESIDE)


def _later(mode: Mode) -> int:
    """Return how much later than a training an evaluation is superseded: it carries the number of steps made before."""
    return int(mode is not Mode.TRAIN)
