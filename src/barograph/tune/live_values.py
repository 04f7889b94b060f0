"""The latest values of running trials, for processes that display a study. The study itself does not need them.

They are in one small object that is replaced, `study/live/values.json`, because events are never deleted.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping

from barograph.errors import DamagedChunk, ObjectNotFound, StoreError
from barograph.model.clock import Clock
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import Store
from barograph.tune.trial import Trial

LIVE = "study/live"
"""Folder of the latest values in the store of a study."""
_NAME = f"{LIVE}/values.json"
_EVERY_SECS = 2.0

Latest = tuple[int, float]
"""The last step that a trial reported, and its value of the first objective there."""


class LiveValues:
    """Writes and reads the latest values of running trials.

    Args:
        store: Store of the study; None for a study in memory.
        clock: Clock for the interval between writes.
    """

    def __init__(self, store: Store | None, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._due = -math.inf

    def note(self, running: Iterable[Trial], *, check: Callable[[], object]) -> None:
        """Write the values of running trials, at most every two seconds. A store that rejects them is ignored.

        Args:
            running: The trials.
            check: Raises an error if the study was deleted.
        """
        if self._store is None or (now := self._clock.monotonic()) < self._due:
            return
        self._due = now + _EVERY_SECS
        with contextlib.suppress(StoreError):
            check()
            values = self.read(running)
            self._store.put(_NAME, sealed({"latest": {str(number): list(latest) for number, latest in values.items()}}))

    def read(self, running: Iterable[Trial]) -> dict[int, Latest]:
        """Return the latest value of each running trial that has one, by its number.

        A trial that this process trains has its own; the others have those that their processes wrote.

        Raises:
            StoreError: The store is unreachable.
        """
        trials = {trial.number: trial for trial in running}
        found = {number: latest for number, latest in (self._stored() if trials else {}).items() if number in trials}
        return found | {number: (step, trial.curve[step]) for number, trial in trials.items()
                        if (step := max(trial.curve, default=None)) is not None}

    def _stored(self) -> Mapping[int, Latest]:
        if self._store is None:
            return {}
        try:
            stored = unsealed(self._store.get(_NAME), _NAME)["latest"]
            return {int(number): (int(step), float(value)) for number, (step, value) in stored.items()}
        except (ObjectNotFound, DamagedChunk, KeyError, TypeError, ValueError, AttributeError):
            return {}
