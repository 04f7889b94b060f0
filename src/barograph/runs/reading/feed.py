"""A run as a sequence of complete steps, each returned once, live or later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.errors import DamagedChunk, NotARun, ObjectNotFound
from barograph.model.clock import Clock, SystemClock
from barograph.model.manifest import Manifest, Worker
from barograph.runs.format.events import SubjectTables
from barograph.runs.format.layout import ENDINGS, HEARTBEATS, MANIFEST, RETENTION, WORKERS, metadata_name
from barograph.runs.format.metadata import (
    ending_from_bytes,
    heartbeat_from_bytes,
    manifest_from_bytes,
    removed_through_from_bytes,
    worker_from_bytes,
)
from barograph.runs.reading.lineup import line_up
from barograph.runs.reading.stream import Position, WorkerStream
from barograph.runs.reading.view import StepView, group_of
from barograph.runs.reading.worker_end import WorkerEnd
from barograph.runs.state.claim import claimer_of
from barograph.runs.state.process import is_alive, process_of, this_process
from barograph.runs.state.survey import Stream, Survey, surveyed
from barograph.runs.state.vitals import DEAD_SECS, Vitals
from barograph.store.base import Store

BATCH_BYTES = 24 * 2**20
"""Memory of records read in one poll. The rest follows in the next one, so that a long run does not exhaust
memory."""

GAP_SECS = 3.0
"""How long to look for a missing chunk: listings of some stores lag behind."""


@dataclass(frozen=True, slots=True)
class FeedResult:
    """Result of one poll.

    Attributes:
        views: Steps that became complete, in order.
        ended: Every worker has ended or is dead, the process that began the attempt is not known to be alive, and
            all steps were returned, including these views.
        drained: As `ended`, but the process that began the attempt may be alive and start more workers.
        more: More can be read immediately; poll again without waiting.
        damage: Unreadable files, one sentence each.
        cursor: JSON data; a feed created with it continues after these views.
    """

    views: tuple[StepView, ...]
    ended: bool
    drained: bool
    more: bool
    damage: tuple[str, ...]
    cursor: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Search:
    """Search for missing chunks of a stream: those up to `through` were published when it started, or never."""

    since: float
    through: int


class Feed:
    """Returns the steps of a run as they become complete.

    Every step is returned once, in whatever order chunks arrive, and however often the feed is recreated from its
    cursor. The feed does not wait for silent workers; their later steps come when they arrive. All steps of an
    attempt come before those of the next, so the feed leaves an attempt only when its workers have ended or have been
    silent for a moment (see `Vitals.has_settled`), at the latest when the next attempt has run longer than
    any worker of this one may keep publishing. Later data is reported as damage.

    Args:
        store: Store of the run.
        cursor: Cursor of an earlier feed; None: start at the first step.
        clock: Measures how long workers have been silent.
        dead_secs: See `vitals.DEAD_SECS`.
        patient: Wait for data that may still come. Otherwise the present data is complete, and an earlier attempt is
            left immediately.
    """

    def __init__(
        self,
        store: Store,
        cursor: Mapping[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        dead_secs: float = DEAD_SECS,
        patient: bool = True,
    ) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._patient = patient
        self._vitals = Vitals(store, self._clock, dead_secs)
        self._tables = SubjectTables()
        self._streams: dict[Stream, WorkerStream] = {}
        self._attempt = int(cursor["attempt"]) if cursor else 0
        self._positions = {
            (self._attempt, worker): Position(chunk, events)
            for worker, (chunk, events) in (cursor["workers"] if cursor else {}).items()
        }
        self._views: list[StepView] = []
        self._damage: list[str] = []
        self._bad_metadata: set[str] = set()
        self._missed: set[tuple[Stream, int]] = set()
        self._searches: dict[Stream, _Search] = {}
        self._held: set[Stream] = set()
        self._again = False
        self._manifest: Manifest | None = None
        self._found: Survey | None = None
        self._worker_end = WorkerEnd(
            self._clock, self._vitals,
            lambda worker, attempt: self._metadata_file(HEARTBEATS, worker, attempt, heartbeat_from_bytes),
            dead_secs=dead_secs, patient=patient,
        )

    @property
    def loaded(self) -> frozenset[str]:
        """Names of the packages that the workers read so far had loaded."""
        return frozenset(name for stream in self._streams.values() for name in stream.worker.versions)

    def poll(self) -> FeedResult:
        """Return the steps that became complete since the last poll.

        Raises:
            NotARun: There is no run.
            NewerFormat, DamagedChunk: Its manifest cannot be read.
            StoreError: The store cannot be read; nothing is lost, poll again.
        """
        found = self._found = surveyed(self._store.list(), self._found)
        self._check_run(found)
        self._again = False
        self._held.clear()
        self._worker_end.clear_cache()
        more = self._advance(found) or self._again
        self._name_what_came_too_late(found)
        drained = not more and self._is_drained(found)
        ended = drained and not self._claimer_lives()
        views, self._views = tuple(self._views), []
        damage, self._damage = tuple(self._damage), []
        return FeedResult(views, ended, drained, more, damage, self._cursor())

    def _check_run(self, found: Survey) -> None:
        if self._manifest is None:
            if not found.has_manifest:
                raise NotARun(f"Not a run: there is no {MANIFEST} ({self._store.url}).")
            self._manifest = manifest_from_bytes(self._store.get(MANIFEST), MANIFEST)
            self._worker_end.settings = self._manifest.settings

    def _advance(self, found: Survey) -> bool:
        """Read and align present data; return whether more can be read immediately."""
        room_bytes = BATCH_BYTES
        is_out = self._is_out_now(found)
        while True:
            self._meet_workers(found)
            streams = self._streams_now()
            for stream in streams:
                room_bytes = self._read(stream, found, room_bytes)
            for group in sorted({group_of(stream.worker.name) for stream in streams}):
                members = [stream for stream in streams if group_of(stream.worker.name) == group]
                if group != "r" or self._all_here(members, found):
                    self._views.extend(line_up(members, is_out))
            if room_bytes <= 0 or self._again:
                return True
            unread = [stream for stream in streams if stream.unread(found)]
            if unread:
                # If all queues stay full, another worker or missing chunks are awaited.
                return not all(stream.is_full or self._is_held(stream) for stream in unread)
            if any(stream.head is not None for stream in streams) or not self._may_leave(streams, found):
                return False
            self._attempt = min(attempt for attempt in found.attempts if attempt > self._attempt)

    def _read(self, stream: WorkerStream, found: Survey, room_bytes: int) -> int:
        while room_bytes > 0 and not stream.is_full and (file := stream.unread(found)) is not None:
            if self._may_be_there_yet(stream, file.first, found):
                return room_bytes
            try:
                room_bytes -= stream.read(self._store, file)
            except ObjectNotFound:
                self._again = True  # merged meanwhile; the next survey sees the new file
                return room_bytes
        if stream.last_chunk is not None and stream.unread(found) is None and not stream.is_complete:
            if self._may_be_there_yet(stream, stream.last_chunk + 1, found):
                return room_bytes
            stream.finish()
        self._damage.extend(stream.damage)
        stream.damage.clear()
        return room_bytes

    def _may_be_there_yet(self, stream: WorkerStream, before: int, found: Survey) -> bool:
        """Return whether to search again for chunks that seem to be missing before this one.

        A listing is not a snapshot: while files are merged, it may miss both the old ones and the new one. So the run
        is listed again immediately, and then for `GAP_SECS`.
        """
        first = max(stream.next_chunk, stream.removed_through + 1)
        if first >= before:
            return False
        name = stream.worker.attempt, stream.worker.name
        if (name, first) not in self._missed:
            self._missed.add((name, first))
            self._again = True
            self._begin_search(name, before, found)
            return True
        if self._patient and self._clock.monotonic() - self._searches[name].since < GAP_SECS:
            self._held.add(name)
            return True
        return False

    def _begin_search(self, name: Stream, before: int, found: Survey) -> None:
        # If many are lost, one timeout covers all of them.
        if name not in self._searches or self._searches[name].through < before - 1:
            files = found.files(name)
            through = max(before - 1, files[-1].last if files else -1)
            self._searches[name] = _Search(self._clock.monotonic(), through)

    def _is_held(self, stream: WorkerStream) -> bool:
        return (stream.worker.attempt, stream.worker.name) in self._held

    def _streams_now(self) -> list[WorkerStream]:
        return [stream for (attempt, _), stream in sorted(self._streams.items()) if attempt == self._attempt]

    def _meet_workers(self, found: Survey) -> None:
        for folder, name, attempt in sorted(found.metadata):
            if folder == WORKERS and attempt == self._attempt and (attempt, name) not in self._streams:
                self._meet(name, attempt)
        for stream in self._streams_now():
            stream.note_conflicts(found)
            name = stream.worker.name
            if (RETENTION, name, self._attempt) in found.metadata:
                note = self._metadata_file(RETENTION, name, self._attempt, removed_through_from_bytes)
                stream.removed_through = stream.removed_through if note is None else note
            if stream.last_chunk is None and (ENDINGS, name, self._attempt) in found.metadata:
                stored = self._metadata_file(ENDINGS, name, self._attempt, ending_from_bytes)
                stream.last_chunk = stored[1] if stored else None

    def _meet(self, name: str, attempt: int) -> None:
        worker = self._metadata_file(WORKERS, name, attempt, worker_from_bytes)
        if worker is not None:
            position = self._positions.get((attempt, name), Position())
            run_id = self._manifest.run_id if self._manifest else ""
            self._streams[attempt, name] = WorkerStream(worker, self._tables, position, run_id)

    def _metadata_file(self, folder: str, worker: str, attempt: int, read: Callable[[memoryview, str], Any]) -> Any:
        name = metadata_name(folder, worker, attempt)
        try:
            return read(self._store.get(name), name)
        except (DamagedChunk, ObjectNotFound) as error:
            if name not in self._bad_metadata:
                self._bad_metadata.add(name)
                self._damage.append(str(error))
            return None

    def _all_here(self, members: Sequence[WorkerStream], found: Survey) -> bool:
        """Return whether every expected rank has registered, or need not be awaited."""
        if self._is_over(found) or all(stream.last_chunk is not None for stream in members):
            return True
        names = {stream.worker.name for stream in members}
        expected = max(stream.worker.world_size for stream in members)
        missing = [f"r{rank}" for rank in range(expected) if f"r{rank}" not in names]
        still = [self._vitals.is_still(f"expected {name}", self._attempt, 0) for name in missing]
        return all(still)  # no short circuit, so that all timeouts run concurrently

    def _is_over(self, found: Survey) -> bool:
        return any(attempt > self._attempt for attempt in found.attempts)

    def _name_what_came_too_late(self, found: Survey) -> None:
        for (attempt, name), stream in self._streams.items():
            if attempt < self._attempt and (file := stream.unread(found)) is not None:
                chunk = max(file.first, stream.next_chunk)
                self._damage.append(
                    f"Chunk {chunk} of worker {name} in attempt {attempt} arrived after steps of a later attempt "
                    "had been read. It and later chunks of this worker are left out."
                )
                stream.leave()

    def _may_leave(self, streams: Sequence[WorkerStream], found: Survey) -> bool:
        """Return whether a later attempt has begun and this one publishes no more, as far as can be known."""
        if not self._is_over(found):
            return False
        done = [self._is_done(stream, found) for stream in streams]
        if not all(done):  # no short circuit, so that all timeouts run concurrently
            self._watch_later_workers(found)
        return all(done)

    def _watch_later_workers(self, found: Survey) -> None:
        """Watch heartbeats of later attempts, so that the timeouts of many killed ones run together."""
        for folder, name, attempt in sorted(found.metadata):
            if folder == WORKERS and attempt > self._attempt and (ENDINGS, name, attempt) not in found.metadata:
                if (attempt, name) not in self._streams:
                    self._meet(name, attempt)
                if stream := self._streams.get((attempt, name)):
                    self._vitals.has_settled(stream.worker)

    def _is_done(self, stream: WorkerStream, found: Survey) -> bool:
        """Return whether a worker of a past attempt publishes no more."""
        if stream.last_chunk is not None:
            return stream.is_complete
        return self._worker_end.are_over(stream.worker, found)

    def _is_out_now(self, found: Survey) -> Callable[[Worker], bool]:
        answers: dict[Stream, bool] = {}

        def is_out(worker: Worker) -> bool:
            stream = worker.attempt, worker.name
            if stream not in answers:
                answers[stream] = self._is_out(worker, found)
            return answers[stream]

        return is_out

    def _is_out(self, worker: Worker, found: Survey) -> bool:
        stream = self._streams[worker.attempt, worker.name]
        if stream.unread(found) is not None:
            return False
        if stream.last_chunk is not None:
            return stream.is_complete
        return self._is_done(stream, found) if self._is_over(found) else self._vitals.is_silent(worker)

    def _is_drained(self, found: Survey) -> bool:
        streams = self._streams_now()
        if self._is_over(found):
            return False
        if not streams:
            return self._will_stay_empty()
        if any(stream.head is not None or stream.unread(found) for stream in streams):
            return False
        return all(self._has_ended(stream) for stream in streams)

    def _has_ended(self, stream: WorkerStream) -> bool:
        if stream.last_chunk is not None:
            return stream.is_complete
        return self._vitals.is_gone(stream.worker)

    def _will_stay_empty(self) -> bool:
        """Return whether this attempt will get no workers, as far as can be known."""
        claimer = claimer_of(self._store, self._attempt)
        alive = is_alive(claimer[0]) if claimer else None
        if alive is None:
            return self._vitals.is_still("", self._attempt, 0)
        return not alive or (claimer is not None and claimer[0] == this_process())

    def _claimer_lives(self) -> bool:
        claimer = claimer_of(self._store, self._attempt)
        if claimer is None:
            return False
        # A worker that began the attempt itself was asked already.
        if any(process_of(stream.worker) == claimer[0] for stream in self._streams_now()):
            return False
        return is_alive(claimer[0]) is True

    def _cursor(self) -> dict[str, Any]:
        positions = {
            stream.worker.name: [stream.position.chunk, stream.position.events] for stream in self._streams_now()
        }
        return {"attempt": self._attempt, "workers": positions}
