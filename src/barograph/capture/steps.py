"""A loop that counts its own steps, with a place that a training can go on from: `run.steps`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barograph.capture.tap import ScriptTap


class Steps:
    """Counts from 0, or goes on with the step that a resumed training comes to.

    Args:
        count: Of the steps.
        tap: Hears of each.
    """

    def __init__(self, count: int, tap: ScriptTap) -> None:
        self.count = count
        self.tap = tap

    def __iter__(self) -> Iterator[int]:
        begun: Iterator[int] = self.tap.steps_begin(self)
        return begun

    def __len__(self) -> int:
        return self.count


class StepsIterator:
    """One pass over the steps.

    Args:
        steps: Which.

    Attributes:
        made: Steps that were given.
    """

    def __init__(self, steps: Steps) -> None:
        self.made = 0
        self._steps = steps

    def __iter__(self) -> StepsIterator:
        return self

    def __next__(self) -> int:
        tap: Any = self._steps.tap
        tap.loader_asked(self)
        if self.made >= self._steps.count:
            tap.loader_ended(self)
            raise StopIteration
        number, self.made = self.made, self.made + 1
        tap.batch_came(self, number)
        return number
