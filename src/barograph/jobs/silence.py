"""How long the agents of a job have been silent, as far as this process could see."""

from __future__ import annotations

from dataclasses import dataclass

from barograph.errors import DamagedChunk, ObjectNotFound, StoreFull
from barograph.jobs.engines.engine import Handle, is_elsewhere
from barograph.jobs.job_log import NOW, instance_folder
from barograph.model.clock import Clock
from barograph.runs.format.metadata import unsealed
from barograph.store.base import Store

_PROBE, _PROBE_BYTES = "room.bin", 4096
_LOST_SECS, _LOST_ELSEWHERE_SECS = 300.0, 120.0
_LOOK_SECS = 5.0
_MOST_UNSEEN_SECS = 2 * _LOOK_SECS


def limit_secs(handle: Handle) -> float:
    """Return how long an instance may be silent: longer on this machine, where its agent is seen to be there."""
    return _LOST_ELSEWHERE_SECS if is_elsewhere(handle) else _LOST_SECS


@dataclass(frozen=True, slots=True)
class _Seen:
    beat: object
    at: float
    silent_secs: float


class Silence:
    """Measures how long the heartbeat of an instance has not changed.

    Only time counts in which this process looked and the store had room: if it was stopped, its machine suspended, or
    the store unreachable, agents may have reported meanwhile; a full store takes no heartbeats. Heartbeats are
    compared, not their times: clocks of machines differ.

    Args:
        store: Store of the job.
        clock: The time.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._seen: dict[tuple[int, int], _Seen] = {}

    def secs(self, attempt: int, index: int) -> float:
        """Return the silence of an instance. Reads its heartbeat every few seconds.

        Raises:
            StoreError: The store cannot be reached.
        """
        now, seen = self._clock.monotonic(), self._seen.get((attempt, index))
        if seen is not None and now < seen.at + _LOOK_SECS:
            return seen.silent_secs
        beat, silent_secs = self._beat(attempt, index), 0.0
        if seen is not None and beat == seen.beat:
            counted = min(now - seen.at, _MOST_UNSEEN_SECS) if self._has_room(attempt, index) else 0.0
            silent_secs = seen.silent_secs + counted
        self._seen[attempt, index] = _Seen(beat, now, silent_secs)
        return silent_secs

    def was_heard(self, attempt: int, index: int) -> bool:
        """Return whether an instance has sent a heartbeat; starting one may take long."""
        seen = self._seen.get((attempt, index))
        return seen is not None and seen.beat is not None

    def _has_room(self, attempt: int, index: int) -> bool:
        """Return whether the store takes an object as large as a heartbeat."""
        name = f"{instance_folder(attempt, index)}/{_PROBE}"
        try:
            self._store.put(name, bytes(_PROBE_BYTES))
        except StoreFull:
            return False
        self._store.delete(name)
        return True

    def _beat(self, attempt: int, index: int) -> object:
        name = f"{instance_folder(attempt, index)}/{NOW}"
        try:
            return unsealed(self._store.get(name), name).get("beat")
        except (ObjectNotFound, DamagedChunk):
            return None
