"""The heartbeat of an instance in the job's store, with the progress of its data."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping

from barograph.errors import StoreError
from barograph.jobs.data.progress import DeliveryProgress
from barograph.jobs.job_log import NOW, instance_folder
from barograph.runs.format.metadata import sealed
from barograph.store.base import Store

_EVERY_SECS = 2.0


class Heartbeat:
    """Writes the heartbeat of an instance when it is due; after `start` also while its agent does other things.

    Args:
        store: Store of the job.
        attempt: Attempt of the job.
        index: Index of the instance.
        clock: Monotonic clock in seconds.
        wait: Sleeps for some seconds; returns true once the thread of `start` should end.
    """

    def __init__(
        self, store: Store, attempt: int, index: int, *, clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._store, self._name, self._clock = store, f"{instance_folder(attempt, index)}/{NOW}", clock
        self._beat, self._due = 0, 0.0
        self._last: dict[str, object] = {}
        self._writing, self._closed = threading.Lock(), threading.Event()
        self._wait = wait or self._closed.wait

    def start(self) -> None:
        """Repeat the last heartbeat in a thread when none is written: an upload or a download may take minutes."""
        threading.Thread(target=self._repeat, name="heartbeat", daemon=True).start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _repeat(self) -> None:
        while not self._wait(_EVERY_SECS):
            with contextlib.suppress(StoreError), self._writing:
                if self._clock() >= self._due + _EVERY_SECS:
                    self._write(self._last)

    def beat(self, *, every_secs: float = _EVERY_SECS, **data: object) -> None:
        """Write the heartbeat if it is due.

        Raises:
            StoreError: The store rejects it; the next one is due later.
        """
        if self._clock() >= self._due:
            with self._writing:
                self._write(data, every_secs)

    def _write(self, data: Mapping[str, object], every_secs: float = _EVERY_SECS) -> None:
        self._due = self._clock() + every_secs
        self._beat += 1
        self._last = dict(data)
        self._store.put(self._name, sealed({"beat": self._beat, "time_unix": time.time(), **data}))

    def tell_full(self, reason: str) -> None:
        """Write why the instance waits, if the store has room for that; "": it no longer waits."""
        with contextlib.suppress(StoreError), self._writing:
            self._write(self._last | {"waiting": reason})

    def tell(self, progress: Mapping[str, DeliveryProgress]) -> None:
        """Report the progress of the data, at most twice a second."""
        with contextlib.suppress(StoreError):
            self.beat(every_secs=_EVERY_SECS / 4,
                      done_bytes=sum(item.done_bytes for item in progress.values()),
                      total_bytes=sum(item.total_bytes for item in progress.values()),
                      waiting=next((item.waiting for item in progress.values() if item.waiting), ""))
