"""Ends a stopped training: by an exception, or by the stop mechanism of the library that runs its loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from barograph.errors import TrainingStopped

Leave = Callable[[], None]
"""Makes a framework's loop end after the current step, by the framework's own mechanism."""


@dataclass(slots=True)
class _Loop:
    leave: Leave
    stopped: TrainingStopped | None = None


class OwnEnd:
    """The running loops of frameworks, innermost last.

    A loop that ends by its own mechanism closes its resources; then the script gets the exception.
    """

    def __init__(self) -> None:
        self._loops: list[_Loop] = []
        self._left_at: int | None = None

    @contextlib.contextmanager
    def within(self, leave: Leave) -> Iterator[None]:
        """End a stopped training within a `with` block by `leave`.

        Raises:
            TrainingStopped: At the end of the block, if it was ended so.
        """
        loop = _Loop(leave)
        self._loops.append(loop)
        try:
            yield
        finally:
            self._loops.remove(loop)
            if loop.stopped is not None:
                self._left_at = None
        if loop.stopped is not None:
            raise loop.stopped

    @property
    def under_way(self) -> bool:
        """Whether a loop was asked to end and has not ended yet."""
        return self._left_at is not None

    def stop(self, stopped: TrainingStopped, steps: int) -> None:
        """End the training after so many steps.

        Raises:
            TrainingStopped: There is no loop that could end in its own way.
        """
        if not self._loops:
            raise stopped
        self._loops[-1].stopped, self._left_at = stopped, steps
        self._loops[-1].leave()

    def insist(self, steps: int) -> None:
        """Note the number of steps so far.

        Raises:
            TrainingStopped: A loop was asked to end but continued.
        """
        if self._left_at is not None and steps > self._left_at:
            self._left_at = None
            for loop in self._loops:
                if loop.stopped is not None:
                    stopped, loop.stopped = loop.stopped, None
                    raise stopped
