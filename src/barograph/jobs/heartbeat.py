"""The heartbeat of an instance in the job's store: that it lives, and how far its data has come."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping

from barograph.errors import StoreError
from barograph.jobs.data.progress import DeliveryProgress
from barograph.jobs.job_log import NOW, instance_folder
from barograph.runs.format.metadata import sealed
from barograph.store.base import Store

_EVERY_SECS = 2.0


class Heartbeat:
    """Writes the heartbeat of an instance when it is due.

    Args:
        store: Store of the job.
        attempt: Attempt of the job.
        index: Which of its instances.
        clock: Seconds that never go back.
    """

    def __init__(self, store: Store, attempt: int, index: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._name, self._clock = store, f"{instance_folder(attempt, index)}/{NOW}", clock
        self._beat, self._due = 0, 0.0
        self._last: dict[str, object] = {}

    def beat(self, *, every_secs: float = _EVERY_SECS, **data: object) -> None:
        """Write it, unless the last one is younger.

        Raises:
            StoreError: The store rejects it; the next one is due later.
        """
        if (now := self._clock()) >= self._due:
            self._due = now + every_secs
            self._write(data)

    def _write(self, data: Mapping[str, object]) -> None:
        self._beat += 1
        self._last = dict(data)
        self._store.put(self._name, sealed({"beat": self._beat, "time_unix": time.time(), **data}))

    def tell_full(self, reason: str) -> None:
        """Write why the instance waits, if the store has room for that; "": it no longer waits."""
        with contextlib.suppress(StoreError):
            self._write(self._last | {"waiting": reason})

    def tell(self, progress: Mapping[str, DeliveryProgress]) -> None:
        """Say how much of the data is there, at most twice a second."""
        with contextlib.suppress(StoreError):
            self.beat(every_secs=_EVERY_SECS / 4,
                      done_bytes=sum(item.done_bytes for item in progress.values()),
                      total_bytes=sum(item.total_bytes for item in progress.values()),
                      waiting=next((item.waiting for item in progress.values() if item.waiting), ""))
