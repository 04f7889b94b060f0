"""The other instances of an attempt, as an instance finds them in the job's store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from barograph.errors import StoreError
from barograph.jobs.job_log import EventLog, instance_folder
from barograph.store.base import Store

_MOST_SECS = 600.0
_LOOK_SECS = 0.05


class Peers:
    """The instances of an attempt.

    Args:
        store: Store of the job.
        attempt: Attempt of the job.
        count: How many instances it has.
    """

    def __init__(self, store: Store, attempt: int, count: int) -> None:
        self._store, self._attempt, self._count = store, attempt, count

    def addresses(self, index: int, address: str, pause: Callable[[float], None]) -> tuple[str, ...]:
        """Return the addresses of all instances, once all are ready.

        Args:
            index: Which of them asks.
            address: Its own address.
            pause: Sleeps for some seconds, or raises.

        Raises:
            StoreError: One was not ready within ten minutes.
        """
        found = {index: address}
        deadline = time.monotonic() + _MOST_SECS
        while len(found) < self._count:
            for other in set(range(self._count)) - set(found):
                with contextlib.suppress(StoreError):
                    for event in self._events(other).new()[:1]:
                        found[other] = str(event.data["address"])
            pause(_LOOK_SECS)
            if time.monotonic() > deadline:
                missing = min(set(range(self._count)) - set(found))
                raise StoreError(f"Instance {missing + 1} of {self._count} was not ready within {_MOST_SECS:g} s.")
        return tuple(found[other] for other in range(self._count))

    def first_port(self) -> int:
        """Return the port for the rendezvous on the first instance, which is ready."""
        return int(self._events(0).new()[0].data["port"])

    def _events(self, index: int) -> EventLog:
        return EventLog(self._store, instance_folder(self._attempt, index))
