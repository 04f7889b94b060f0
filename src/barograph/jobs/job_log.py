"""The state of a job in its store: numbered, immutable events, and a few objects beside them.

    job/spec.json                      the job as submitted
    job/launch.json                    how its processes record themselves
    job/code.DIGEST                    the source folder
    job/events/NNNNNNNN.json           decisions of the controller, and what it saw
    job/requests/NAME.json             what users ask of the job
    job/instances/AAAA-I/NNNNNNNN.json events of the agent of instance I in attempt A
    job/instances/AAAA-I/now.json      its heartbeat, replaced
    job/instances/AAAA-I/room.bin      whether the store has room: the controller writes it, and deletes it at once
    job/logs/AAAA-I/NNNNNNNN.log       output of the script there

An event is created once under its number. So of two controllers that act at once only one succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barograph.errors import DamagedChunk, ObjectExists, ObjectNotFound, StoreError
from barograph.runs.format.layout import JOB
from barograph.runs.format.metadata import CLAIM, sealed, unsealed
from barograph.runs.state.claim import new_claim
from barograph.store.base import Store

SPEC, LAUNCH, CODE = f"{JOB}/spec.json", f"{JOB}/launch.json", f"{JOB}/code"
EVENTS, REQUESTS, INSTANCES, LOGS = f"{JOB}/events", f"{JOB}/requests", f"{JOB}/instances", f"{JOB}/logs"
NOW = "now.json"
STOP = f"{REQUESTS}/stop.json"
DAMAGED = "damaged"
"""Kind of an event whose file is damaged; "name" is its name."""


class NotLeading(Exception):
    """Another controller has decided meanwhile."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job, or that was decided.

    Attributes:
        kind: Its type, such as "starting".
        time_unix: Time by the writer's clock.
        data: Details, as JSON data.
    """

    kind: str
    time_unix: float
    data: Mapping[str, Any] = field(default_factory=dict)


class EventLog:
    """Numbered events in one folder of a store, with one writer at a time.

    Args:
        store: Store of the job.
        folder: `EVENTS`, or the folder of an instance.
        clock: Seconds since 1970 UTC.
        reads: Whether the writer calls `new` before it decides what to append. If not, an event of its own whose
            response was lost is kept, and the next event gets the next number.
    """

    def __init__(
        self, store: Store, folder: str, *, clock: Callable[[], float] = time.time, reads: bool = True
    ) -> None:
        self._store, self._folder, self._clock, self._reads = store, folder, clock, reads
        self._next = 0
        self._writer = new_claim()

    def new(self) -> list[Event]:
        """Return the events that were written since the last call, in order.

        Raises:
            StoreError: The store cannot be read.
        """
        found: list[Event] = []
        while True:
            name = f"{self._folder}/{self._next:08d}.json"
            try:
                body = unsealed(self._store.get(name), name)
            except ObjectNotFound:
                return found
            except StoreError:
                if found:
                    return found  # the next call returns the rest, or raises
                raise
            except DamagedChunk:
                body = {"kind": DAMAGED, "time_unix": self._clock(), "data": {"name": name}}
            self._next += 1
            found.append(Event(str(body["kind"]), float(body["time_unix"]), body.get("data", {})))

    def append(self, kind: str, **data: Any) -> Event:
        """Write an event and return it.

        Raises:
            NotLeading: Somebody else wrote an event that `new` has not returned yet.
            StoreError: The store rejects it.
        """
        event = Event(kind, self._clock(), data)
        body = {"kind": kind, "time_unix": event.time_unix, "data": data, CLAIM: self._writer}
        while True:
            name = f"{self._folder}/{self._next:08d}.json"
            try:
                self._store.create(name, sealed(body))
            except ObjectExists:
                # A bucket may store an object although its response is lost; then it is ours.
                found = self._of_ours(name)
                if found is None or (self._reads and not _is_same(found, body)):
                    raise NotLeading(self._folder) from None
                self._next += 1
                if not _is_same(found, body):
                    continue
            else:
                self._next += 1
            return event

    def _of_ours(self, name: str) -> Mapping[str, Any] | None:
        """Return the event of this number if this writer wrote it, else None."""
        try:
            found = unsealed(self._store.get(name), name)
        except (ObjectNotFound, DamagedChunk):
            return None
        return found if found.get(CLAIM) == self._writer else None


def _is_same(stored: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """Return whether two events are one that was written twice; each try has a time of its own."""
    as_stored = unsealed(sealed(written), "")
    return all(stored[part] == as_stored[part] for part in ("kind", "data"))


def instance_folder(attempt: int, index: int) -> str:
    """Return the folder of an instance's events.

    Example:
        >>> instance_folder(0, 1)
        'job/instances/0000-1'
    """
    return f"{INSTANCES}/{attempt:04d}-{index}"


def log_folder(attempt: int, index: int) -> str:
    """Return the folder of an instance's output."""
    return f"{LOGS}/{attempt:04d}-{index}"
