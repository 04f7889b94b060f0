"""Which workers live, told without trusting any clock but the reader's own."""

from __future__ import annotations

from dataclasses import dataclass

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.model.clock import Clock
from barograph.model.manifest import Heartbeat, Worker
from barograph.runs.format.layout import HEARTBEATS, metadata_name
from barograph.runs.format.metadata import heartbeat_from_bytes
from barograph.runs.state.process import is_alive, process_of
from barograph.store.base import Store

DEAD_SECS = 30.0
"""A worker whose heartbeat has not counted up for so long is taken for dead. It beats once a second; a slow
request to a bucket may take a minute at worst, and a worker that is taken for dead too early loses nothing
but its turn: what it publishes later is shown later."""


SETTLE_SECS = 2.5
"""A process that is seen to be dead may have handed its last records to another one that still publishes them,
and gives the signs of life meanwhile; so the heartbeat has to stand still for a moment even then."""


@dataclass(slots=True)
class _Seen:
    beat: int
    looked_at: float
    still_secs: float = 0.0
    counted: bool = False


class Vitals:
    """Watches the heartbeats of workers.

    Args:
        store: The run's.
        clock: The reader's own.
        dead_secs: See `DEAD_SECS`.
    """

    def __init__(self, store: Store, clock: Clock, dead_secs: float = DEAD_SECS) -> None:
        self._store = store
        self._clock = clock
        self._dead_secs = dead_secs
        self._seen: dict[tuple[str, int], _Seen] = {}

    def is_silent(self, worker: Worker) -> bool:
        """Return whether a worker without ending need not be waited for: it is gone, or gives no sign.

        Raises:
            StoreError: The heartbeat cannot be read now.
        """
        dead = is_alive(process_of(worker)) is False
        return self._still_secs(worker) >= (SETTLE_SECS if dead else self._dead_secs)

    def is_gone(self, worker: Worker) -> bool:
        """Return whether a worker without ending will never say another word, as far as can be known.

        A process on this machine is asked itself: it may be stopped, or cut off from the store, and live.
        """
        alive = is_alive(process_of(worker))
        if alive:
            return False
        return self._still_secs(worker) >= (self._dead_secs if alive is None else SETTLE_SECS)

    def has_settled(self, worker: Worker) -> bool:
        """Return whether a worker without ending, after whom a later attempt was begun, says no more.

        Whoever begins an attempt has made sure that the workers of the one before are gone, so a moment of
        silence is enough, wherever they were. Only a process that is seen to live after all is waited for longer.

        Raises:
            StoreError: The heartbeat cannot be read now.
        """
        return self._still_secs(worker) >= (self._dead_secs if is_alive(process_of(worker)) else SETTLE_SECS)

    def has_counted(self, worker: Worker) -> bool:
        """Return whether the heartbeat was seen counting up between two looks."""
        self._still_secs(worker)
        return self._seen[worker.name, worker.attempt].counted

    def is_still(self, name: str, attempt: int, beat: int, *, secs: float | None = None) -> bool:
        """Return whether something has stood still for so long that it is taken for dead.

        Args:
            name, attempt: What it is.
            beat: What would change if it lived.
            secs: For how long; None: as long as a worker.
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
            # A gap between two looks counts in part only: the reader may itself have been asleep or cut off.
            seen.still_secs += min(now - seen.looked_at, self._dead_secs / 3)
        seen.looked_at = now
        return seen


def heartbeat_of(store: Store, worker: Worker) -> Heartbeat | None:
    """Return a worker's last heartbeat; None where there is none, or none that can be read."""
    name = metadata_name(HEARTBEATS, worker.name, worker.attempt)
    try:
        return heartbeat_from_bytes(store.get(name), name)
    except (ObjectNotFound, DamagedChunk):
        return None
