"""The records of one worker in one attempt, read chunk by chunk, each step once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from barograph.errors import DamagedChunk
from barograph.model.manifest import Worker
from barograph.model.step import Mode
from barograph.runs.format.belonging import open_published
from barograph.runs.format.events import StepEvent, SubjectTables, all_rows, events_of
from barograph.runs.format.layout import ChunkName
from barograph.runs.reading.gaps import missing_chunks
from barograph.runs.state.survey import Survey
from barograph.store.base import Store

FULL_EVENTS = 4096
"""Maximum number of steps waiting in memory for other workers."""


@dataclass(frozen=True, slots=True)
class Position:
    """Position in a stream: after all chunks before `chunk`, and `events` steps of it."""

    chunk: int = 0
    events: int = 0


class WorkerStream:
    """Reads the files of one worker in order, and returns steps one by one.

    Args:
        worker: The worker.
        tables: Cache shared by all streams.
        position: Start position.
        run_id: ID of the run; "": unknown.
    """

    def __init__(self, worker: Worker, tables: SubjectTables, position: Position, run_id: str = "") -> None:
        self.worker = worker
        self._run_id = run_id
        self._tables = tables
        self._queue: deque[tuple[StepEvent, Position]] = deque()
        self._next = position
        self._furthest: dict[tuple[Mode, str], int] = {}
        self.last_chunk: int | None = None
        self.removed_through = -1
        self.damage: list[str] = []
        self._damaged: set[str] = set()
        self._is_left = False
        self._conflicts: set[str] = set()

    @property
    def position(self) -> Position:
        """Position of the next step."""
        return self._queue[0][1] if self._queue else self._next

    @property
    def next_chunk(self) -> int:
        """Sequence number of the next chunk to read."""
        return self._next.chunk

    @property
    def head(self) -> StepEvent | None:
        """The next step; None if none was read."""
        return self._queue[0][0] if self._queue else None

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of steps is waiting."""
        return len(self._queue) >= FULL_EVENTS

    @property
    def is_complete(self) -> bool:
        """Whether the worker has ended and everything it published was read."""
        return self.last_chunk is not None and self._next.chunk > self.last_chunk

    def take(self) -> StepEvent:
        """Return and remove the next step."""
        event, _ = self._queue.popleft()
        return event

    def waiting(self) -> Iterator[StepEvent]:
        """Yield the waiting steps, in order."""
        return (event for event, _ in self._queue)

    def has_passed(self, event: StepEvent) -> bool:
        """Return whether the worker is past a step of another worker, and will never record it."""
        number = event.step.number
        trained = [step for (mode, _), step in self._furthest.items() if mode is Mode.TRAIN]
        evaluated = [step for (mode, _), step in self._furthest.items() if mode is not Mode.TRAIN]
        if event.step.mode is Mode.TRAIN:
            # An evaluation carries the number of steps made before it.
            mine = self._furthest.get((Mode.TRAIN, event.step.optimizer), -1)
            return mine >= number or max(evaluated, default=-1) > number
        return max(trained, default=-1) >= number or max(evaluated, default=-1) > number

    def unread(self, found: Survey) -> ChunkName | None:
        """Return the next file with unread records; None if there is none, or the stream is abandoned."""
        if self._is_left:
            return None
        return found.file_from((self.worker.attempt, self.worker.name), self._next.chunk, self._damaged)

    def note_conflicts(self, found: Survey) -> None:
        """Note in `damage`, once each, the files that are passed over though no other one has all their rows."""
        for text in found.conflict_damage((self.worker.attempt, self.worker.name), self._damaged):
            if text not in self._conflicts:
                self._conflicts.add(text)
                self.damage.append(text)

    def read(self, store: Store, file: ChunkName) -> int:
        """Read a file that `unread` returned; return the memory size of its records.

        A missing chunk before it, or a damaged file, is noted in `damage` and skipped.

        Raises:
            ObjectNotFound: The file was merged with others or removed meanwhile.
            StoreError: The store cannot be read.
        """
        try:
            table = all_rows(open_published(store, file, self._run_id), str(file))
            events = events_of(table, self._tables)
        except DamagedChunk as error:
            self._damaged.add(str(file))
            self.damage.append(str(error))
            return 0
        self._note_missing(file.first)
        chunk, index = -1, 0
        for event in events:
            index = index + 1 if event.chunk == chunk else 0
            chunk = event.chunk
            if (chunk, index) >= (self._next.chunk, self._next.events):
                self._queue.append((event, Position(chunk, index)))
            if not event.logged:
                kind = (event.step.mode, event.step.optimizer)
                self._furthest[kind] = max(event.step.number, self._furthest.get(kind, -1))
        self._next = Position(file.last + 1)
        return int(table.nbytes)

    def finish(self) -> None:
        """Note published records that can no longer be read as missing."""
        if self.last_chunk is not None:
            self._note_missing(self.last_chunk + 1)
            self._next = Position(max(self._next.chunk, self.last_chunk + 1))

    def leave(self) -> None:
        """Stop reading this stream."""
        self._is_left = True

    def _note_missing(self, before: int) -> None:
        first = max(self._next.chunk, self.removed_through + 1)
        if first < before:
            self.damage.append(missing_chunks((self.worker.attempt, self.worker.name), first, before))
