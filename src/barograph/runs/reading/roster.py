"""The workers of a run and their states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barograph.model.clock import Clock
from barograph.model.manifest import Ending, Heartbeat, Worker
from barograph.runs.format.layout import ENDINGS, HEARTBEATS, WORKERS
from barograph.runs.format.metadata import ending_from_bytes, heartbeat_from_bytes, worker_from_bytes
from barograph.runs.reading.view import worker_order
from barograph.runs.state.metadata_reader import MetadataReader
from barograph.runs.state.process import is_alive, process_of
from barograph.runs.state.survey import Survey
from barograph.runs.state.vitals import Vitals
from barograph.store.base import Store


class Standing(StrEnum):
    """State of a worker."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"
    """It is dead and has no ending."""
    UNKNOWN = "unknown"
    """It is on another machine, and its heartbeat has not been watched for long enough."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker and its state.

    Attributes:
        worker: The worker.
        standing: Its state.
        heartbeat: Its last readable heartbeat; None if there is none.
        ending: Its ending; None if there is none.
        last_chunk: Sequence number of its last chunk, from the ending; None without ending.
    """

    worker: Worker
    standing: Standing
    heartbeat: Heartbeat | None
    ending: Ending | None
    last_chunk: int | None

    @property
    def last(self) -> Heartbeat | None:
        """Its newest status: that of the ending, or the last heartbeat."""
        return self.ending.last if self.ending else self.heartbeat


class Roster:
    """Reads the workers of a run. A damaged metadata file is listed in `damage` and counts as missing.

    Args:
        store: Store of the run.
        clock: Measures how long heartbeats have been watched.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._vitals = Vitals(store, clock)
        self._metadata = MetadataReader(store)

    @property
    def damage(self) -> tuple[str, ...]:
        """Unreadable metadata files so far, one sentence each."""
        return self._metadata.damage

    def workers(self, found: Survey) -> tuple[WorkerState, ...]:
        """Return all workers, by attempt and name.

        Args:
            found: Survey of the run.

        Raises:
            StoreError: The store cannot be read.
        """
        declared = [(attempt, worker) for folder, worker, attempt in found.metadata if folder == WORKERS]
        states = []
        for attempt, name in sorted(declared, key=lambda item: (item[0], worker_order(item[1]))):
            worker = self._metadata.read(WORKERS, name, attempt, worker_from_bytes)
            if worker is not None:
                states.append(self._state(worker, is_over=any(other > attempt for other in found.attempts)))
        return tuple(states)

    def _state(self, worker: Worker, *, is_over: bool) -> WorkerState:
        heartbeat = self._metadata.read(HEARTBEATS, worker.name, worker.attempt, heartbeat_from_bytes)
        stored = self._metadata.read(ENDINGS, worker.name, worker.attempt, ending_from_bytes)
        ending, last_chunk = stored or (None, None)
        standing = Standing(ending.state.value) if ending else self._standing(worker, is_over=is_over)
        return WorkerState(worker, standing, heartbeat, ending, last_chunk)

    def _standing(self, worker: Worker, *, is_over: bool) -> Standing:
        alive = is_alive(process_of(worker))
        if alive is not None:
            return Standing.RUNNING if alive else Standing.KILLED
        if is_over or self._vitals.is_gone(worker):
            return Standing.KILLED
        return Standing.RUNNING if self._vitals.has_counted(worker) else Standing.UNKNOWN
