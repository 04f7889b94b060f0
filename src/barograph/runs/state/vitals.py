"""Which workers are alive, judged only by the reader's clock."""

from __future__ import annotations

from dataclasses import dataclass

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.model.clock import Clock
from barograph.model.manifest import Heartbeat, Worker
from barograph.runs.format.layout import ENDINGS, HEARTBEATS, metadata_name
from barograph.runs.format.metadata import ending_from_bytes, heartbeat_from_bytes
from barograph.runs.state.process import is_alive, process_of
from barograph.store.base import Store

DEAD_SECS = 30.0
"""A worker without a heartbeat for this long counts as dead. Heartbeats come once a second; a slow request to a
bucket may take a minute. A live worker that counts as dead loses nothing: its later records are shown
later."""


SETTLE_SECS = 2.5
"""The writer process of a dead process may still publish its last records and send heartbeats, so the heartbeat must
stop for this long even then."""


@dataclass(slots=True)
class _Seen:
    beat: int
    looked_at: float
    still_secs: float = 0.0
    counted: bool = False


class Vitals:
    """Watches the heartbeats of workers.

    Args:
        store: Store of the run.
        clock: Clock of the reader.
        dead_secs: See `DEAD_SECS`.
    """

    def __init__(self, store: Store, clock: Clock, dead_secs: float = DEAD_SECS) -> None:
        self._store = store
        self._clock = clock
        self._dead_secs = dead_secs
        self._seen: dict[tuple[str, int], _Seen] = {}

    def is_silent(self, worker: Worker) -> bool:
        """Return whether a worker without ending is gone or sends no heartbeats.

        Raises:
            StoreError: The heartbeat cannot be read.
        """
        dead = is_alive(process_of(worker)) is False
        return self._still_secs(worker) >= (SETTLE_SECS if dead else self._dead_secs)

    def is_gone(self, worker: Worker) -> bool:
        """Return whether a worker without ending is gone for good, as far as can be known.

        A process on this machine is checked directly: it may be stopped, or cut off from the store, and alive.
        """
        alive = is_alive(process_of(worker))
        if alive:
            return False
        return self._still_secs(worker) >= (self._dead_secs if alive is None else SETTLE_SECS)

    def has_settled(self, worker: Worker) -> bool:
        """Return whether a worker without ending, of an attempt with a successor, has stopped publishing.

        An attempt starts only after the workers of the previous one are gone, so a short silence is enough. Only a
        process that is alive after all is awaited longer.

        Raises:
            StoreError: The heartbeat cannot be read.
        """
        return self._still_secs(worker) >= (self._dead_secs if is_alive(process_of(worker)) else SETTLE_SECS)

    def has_counted(self, worker: Worker) -> bool:
        """Return whether the heartbeat increased between two polls."""
        self._still_secs(worker)
        return self._seen[worker.name, worker.attempt].counted

    def is_still(self, name: str, attempt: int, beat: int, *, secs: float | None = None) -> bool:
        """Return whether something has not changed for so long that it counts as dead.

        Args:
            name, attempt: Its identity.
            beat: Value that changes while it is alive.
            secs: Timeout; None: that of workers.
        """
        return self._look(name, attempt, beat).still_secs >= (self._dead_secs if secs is None else secs)

    def _still_secs(self, worker: Worker) -> float:
        heartbeat = heartbeat_of(self._store, worker)
        return self._look(worker.name, worker.attempt, heartbeat.beat if heartbeat else -1).still_secs

    def _look(self, name: str, attempt: int, beat: int) -> _Seen:
        now = self._clock.monotonic()
        seen = self._seen.setdefault((name, attempt), _Seen(beat, now))
        if seen.beat != beat:
            seen.beat, seen.still_secs, seen.counted = beat, 0.0, True
        else:
            # A gap between two polls counts only in part: the reader itself may have been asleep or cut off.
            seen.still_secs += min(now - seen.looked_at, self._dead_secs / 3)
        seen.looked_at = now
        return seen


def last_heartbeat_of(store: Store, worker: Worker) -> Heartbeat | None:
    """Return a worker's heartbeat at its end; if it has not ended, or if that is unreadable, as `heartbeat_of`."""
    name = metadata_name(ENDINGS, worker.name, worker.attempt)
    try:
        return ending_from_bytes(store.get(name), name)[0].last
    except (ObjectNotFound, DamagedChunk):
        return heartbeat_of(store, worker)


def heartbeat_of(store: Store, worker: Worker) -> Heartbeat | None:
    """Return a worker's last heartbeat; None if it is missing or unreadable."""
    name = metadata_name(HEARTBEATS, worker.name, worker.attempt)
    try:
        return heartbeat_from_bytes(store.get(name), name)
    except (ObjectNotFound, DamagedChunk):
        return None
