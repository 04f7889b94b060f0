"""The work of the writer's thread in turns: collect, seal, publish, send heartbeats, merge and remove files."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from barograph.errors import DamagedChunk, ObjectExists, ObjectNotFound, StoreError
from barograph.model.clock import Clock
from barograph.model.key import Key, Kind
from barograph.model.manifest import Ending, EndState, Heartbeat, Worker
from barograph.model.settings import Settings
from barograph.runs.format.codec import ChunkNotes
from barograph.runs.format.layout import ENDINGS, HEARTBEATS, ChunkName, metadata_name
from barograph.runs.format.metadata import ending_bytes, heartbeat_bytes
from barograph.runs.format.pending import Pending, compact
from barograph.runs.format.proof import proved
from barograph.runs.state.problems import Problems
from barograph.runs.writing.compaction import publish_compacted, worth_compacting, worth_compacting_at_end
from barograph.runs.writing.condensing import Condenser, names_beside
from barograph.runs.writing.inbox import Inbox
from barograph.runs.writing.outbox import CHUNK_POINTS, Outbox, Published
from barograph.runs.writing.retention import EarlierFiles, beyond_limits, note_removal
from barograph.runs.writing.trace_writer import TraceWriter
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.machine.sampler import Sampler

TURN_SECS = 0.1
"""Interval between turns."""
HEARTBEAT_SECS = 1.0
CONTROL_SECS = 0.5
TRACE_SECS = 5.0
"""Interval between writes of the data trace; each rewrites its newest file."""
TRACE_SHARE = 16
"""The data trace may take one part in this many of `max_bytes`, in addition to the records."""
LEARN_SECS = 0.5
"""Time limit in one turn for reading files of earlier writers; meanwhile records and heartbeats wait."""
BACK_OFF_SECS = (0.5, 1.0, 2.0, 5.0)
"""Back-off after failures of the store: the first, the second, … and every later one."""
LAST_COMPACTION_BYTES = 8 * 2**20
"""Limit for merging files when the worker ends, so that the end does not take long."""


class Publisher:
    """Publishes the content of the inbox. For use in one thread.

    Args:
        store: Store of the run.
        worker: Worker that recorded it.
        settings: How long records may wait, and how many are kept.
        clock: Clock.
        inbox: Queue of records.
        status: Returns the status of the training; counts of chunks, drops and problems are added here.
        on_control: Called with the store every half second, to check for requests.
        problems: Collects errors.
        first_chunk: Sequence number of the first chunk.
        sampler: Creates the sampler of machine metrics; None: none.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker,
        *,
        settings: Settings,
        clock: Clock,
        inbox: Inbox,
        status: Callable[[], Heartbeat],
        on_control: Callable[[Store], object] | None,
        problems: Problems,
        first_chunk: int = 0,
        sampler: Callable[[], Sampler] | None = None,
    ) -> None:
        self._store = store
        self._make_sampler = sampler
        self._sampler: Sampler | None = None
        self._unsampled = ""
        self._worker = worker
        self._settings = settings
        self._clock = clock
        self._inbox = inbox
        self._status = status
        self._on_control = on_control
        self._problems = problems
        self._outbox = Outbox(store, worker, first_chunk)
        self._condenser = Condenser(store, worker.run_id)
        self._trace = TraceWriter(store, worker)
        self._next_trace = 0.0
        self._files: list[Published] = []
        self._earlier = EarlierFiles(store, worker, first_chunk, with_steps=settings.keep_last is not None)
        self._limits_due = True
        self._left_alone: set[ChunkName] = set()
        self._tidied_through: ChunkName | None = None
        self._trash: deque[str] = deque()
        self._open_since = 0.0
        self._beat = 0
        self._next_beat = self._next_control = self._away_until = clock.monotonic()
        self._failures = 0
        self._failed_steps = 0
        self._failed_points = 0

    @property
    def dropped_steps(self) -> int:
        """Steps that did not fit into the queue or could not be written."""
        return self._inbox.dropped_steps + self._failed_steps

    @property
    def dropped_points(self) -> int:
        """Logged numbers that did not fit into the queue or could not be written."""
        return self._inbox.dropped_points + self._failed_points

    @property
    def unpublished_steps(self) -> int:
        """Accepted steps that are not in the store."""
        return self._inbox.waiting_steps + self._outbox.unpublished_steps

    @property
    def unpublished_points(self) -> int:
        """Accepted logged numbers that are not in the store."""
        return self._inbox.waiting_points + self._outbox.unpublished_points

    @property
    def chunks(self) -> int:
        """Chunks published so far."""
        return self._outbox.next_chunk - self._outbox.waiting

    def turn(self, *, closing: bool = False) -> None:
        """Do the due work. Errors of the store are noted and followed by a back-off.

        Args:
            closing: Publish everything immediately.
        """
        if not closing:
            self._sample()
        is_urgent = self._inbox.take_urgent()
        self._collect()
        now = self._clock.monotonic()
        # While the store is unavailable one chunk grows, instead of many waiting.
        is_due = is_urgent or now - self._open_since >= self._settings.flush_secs - TURN_SECS
        if self._outbox.is_open and (closing or (is_due and not self._outbox.waiting)):
            self._seal()
        if now < self._away_until:
            return
        try:
            self._give_sign()
            while (published := self._outbox.publish()) is not None:
                self._inbox.hold(-published.total_bytes)
                self._files.append(published)
                self._condenser.add(published)
                self._limits_due = True
                self._give_sign()
            self._publish_trace(at_once=closing)
            self._ask_control()
            if not closing:
                self._tidy()
        except StoreError as error:
            self._leave_alone(error, closing=closing)
        else:
            self._failures = 0

    def finish(self, state: EndState, reason: str) -> bool:
        """Write the ending after everything is published. Returns False if the store rejects it.

        Args:
            state: State in which the worker ended.
            reason: Reason for people.
        """
        if self._clock.monotonic() < self._away_until:
            return False
        name = metadata_name(ENDINGS, self._worker.name, self._worker.attempt)
        last_chunk = self._outbox.next_chunk - 1
        self._tidy_at_end()
        try:
            self._publish_trace(at_once=True)
            # If an earlier try succeeded without a response, the ending exists.
            with contextlib.suppress(ObjectExists):
                ending = Ending(state, reason, self._heartbeat())
                first_steps = self._outbox.first_steps
                self._store.create(name, ending_bytes(ending, last_chunk=last_chunk, first_steps=first_steps))
        except StoreError as error:
            self._leave_alone(error, closing=True)
            return False
        return True

    def stop_sampling(self) -> None:
        """Stop sampling machine metrics."""
        sampler, self._sampler, self._make_sampler = self._sampler, None, None
        if sampler is not None:
            # Also reported in the ending.
            self._unsampled = sampler.problem
            sampler.close()

    def _sample(self) -> None:
        if self._make_sampler is None:
            return
        try:
            self._sampler = self._sampler or self._make_sampler()
            figures = self._sampler.sample()
        except Exception as error:  # noqa: BLE001 - records matter more than system metrics; it is reported
            self._problems.note("sampler", f"Machine metrics are no longer recorded: "
                                           f"{type(error).__name__}: {error}")
            self._sampler = self._make_sampler = None
            return
        if figures:
            numbers = {Key(Kind.MACHINE, name): value for name, value in figures.items()}
            self._inbox.note(numbers, step=self._status().step, time_unix=self._clock.unix())

    def _collect(self) -> None:
        self._trace.add(self._inbox.take_batches())
        was_open = self._outbox.is_open
        steps, points = self._inbox.take()
        for piece in points.pieces(CHUNK_POINTS):
            self._outbox.add_points(piece)
            if self._outbox.is_full:
                self._seal()
        for pending, size_bytes in steps:
            self._inbox.hold(self._add(pending) - size_bytes)
            if self._outbox.is_full:
                self._seal()
        if not was_open:
            self._open_since = self._clock.monotonic()

    def _add(self, pending: Pending) -> int:
        try:
            step = compact(pending.resolve())
        except Exception as error:  # noqa: BLE001 - an error in one step must not end the thread; it is reported
            self._failed_steps += 1
            self._problems.note("resolve", f"A step could not be recorded: {error!r}")
            return 0
        return self._outbox.add_step(step)

    def _publish_trace(self, *, at_once: bool) -> None:
        now = self._clock.monotonic()
        if not at_once and now < self._next_trace:
            return
        self._next_trace = now + max(TRACE_SECS, self._settings.flush_secs)
        try:
            self._trace.publish(self._inbox.dropped_batches)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - an encoding error must not block other records; it is reported
            self._problems.note("trace", f"The samples of {self._trace.discard()} batches could not be written: "
                                         f"{error!r}")

    def _seal(self) -> None:
        notes = ChunkNotes(self.dropped_steps, self.dropped_points)
        try:
            self._inbox.hold(self._outbox.seal(notes))
        except Exception as error:  # noqa: BLE001 - an encoding error must not block other records; it is reported
            steps, points, size_bytes = self._outbox.discard()
            self._inbox.hold(-size_bytes)
            self._failed_steps += steps
            self._failed_points += points
            self._problems.note("seal", f"{steps} steps and {points} logged numbers could not be written: {error!r}")
        self._open_since = self._clock.monotonic()
        for problem in self._outbox.problems:
            self._problems.note(problem, problem)
        self._outbox.problems.clear()

    def _give_sign(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + HEARTBEAT_SECS
        self._beat += 1
        name = metadata_name(HEARTBEATS, self._worker.name, self._worker.attempt)
        self._store.put(name, heartbeat_bytes(self._heartbeat()))

    def _heartbeat(self) -> Heartbeat:
        now = self._status()
        unseen = self._sampler.problem if self._sampler is not None else self._unsampled
        if unseen:
            now = replace(now, coverage=replace(now.coverage, reasons=(*now.coverage.reasons, unseen)))
        return replace(
            now,
            beat=self._beat,
            time_unix=self._clock.unix(),
            chunks=self.chunks,
            dropped_steps=self.dropped_steps,
            dropped_points=self.dropped_points,
            problems=(*now.problems, *self._problems.texts),
        )

    def _ask_control(self) -> None:
        now = self._clock.monotonic()
        if self._on_control is not None and now >= self._next_control:
            self._next_control = now + CONTROL_SECS
            self._on_control(self._store)

    def _tidy(self) -> None:
        self._empty_trash()
        # If it is not worthwhile now, it is not until another file is published.
        if self._files and self._files[-1].name != self._tidied_through:
            groups = [worth_compacting(files) for files in self._compactable()]
            for files in groups:
                self._compact(files)
            self._tidied_through = None if any(groups) else self._files[-1].name
        self._condenser.condense(self._files, at_most=1)
        self._keep_limits()

    def _tidy_at_end(self) -> None:
        # Many small files are inconvenient, but a worker without ending would look killed.
        try:
            self._compact(worth_compacting_at_end(self._compactable()[-1], LAST_COMPACTION_BYTES))
            self._condenser.condense(self._files)
            self._empty_trash()
        except StoreError as error:
            self._problems.note(type(error).__name__, str(error))

    def _keep_limits(self) -> None:
        keep_last, max_bytes = self._settings.keep_last, self._share_of_bytes()
        self._trace.keep(last_steps=keep_last, size_bytes=max_bytes and max_bytes // TRACE_SHARE)
        if (keep_last is None and max_bytes is None) or not self._limits_due or not self._earlier_known():
            return
        earlier = self._earlier.files
        gone = beyond_limits([*earlier, *self._files], keep_last=keep_last, max_bytes=max_bytes)
        if gone:
            note_removal(self._store, self._worker, gone)
            for file in gone:
                self._trash.append(str(file.name))
                self._trash.extend(file.beside)
                self._trash.extend(str(name) for name in self._earlier.inside(file.name))
            del self._files[: max(0, len(gone) - len(earlier))]
            del earlier[: len(gone)]
        self._limits_due = False
        self._empty_trash()

    def _earlier_known(self) -> bool:
        """Return whether all earlier files are known; otherwise the next turn continues reading them."""
        began = self._clock.monotonic()
        while self._earlier.learn():
            if self._clock.monotonic() - began >= LEARN_SECS:
                return False
        return True

    def _compact(self, files: Sequence[Published]) -> None:
        if not files:
            return
        start = self._files.index(files[0])
        try:
            compacted = publish_compacted(self._store, files)
        except (DamagedChunk, ObjectNotFound) as error:
            # The files were changed. They are kept for `barograph doctor`.
            self._problems.note("damaged", str(error))
            self._left_alone.update(self._unusable(files) or (file.name for file in files))
            return
        self._files[start : start + len(files)] = [compacted]
        self._trash.extend([*(str(file.name) for file in files), *names_beside(files)])
        self._condenser.add(compacted)
        # Before the old ones are deleted, so that no reader has to read all records.
        self._condenser.condense(self._files, at_most=1)
        self._empty_trash()

    def _compactable(self) -> list[list[Published]]:
        """Return the files that may be merged: a file covers its chunks without a gap."""
        groups: list[list[Published]] = [[]]
        for file in self._files:
            if file.name in self._left_alone:
                groups.append([])
            else:
                groups[-1].append(file)
        return groups

    def _unusable(self, files: Sequence[Published]) -> list[ChunkName]:
        """Return which of these files are missing or damaged."""
        found = []
        for file in files:
            try:
                proved(self._store, str(file.name), file.name.digest)
            except (DamagedChunk, ObjectNotFound):
                found.append(file.name)
        return found

    def _empty_trash(self) -> None:
        while self._trash:
            self._store.delete(self._trash[0])
            self._trash.popleft()

    def _share_of_bytes(self) -> int | None:
        max_bytes = self._settings.max_bytes
        return None if max_bytes is None else max_bytes // max(1, self._worker.world_size)

    def _leave_alone(self, error: StoreError, *, closing: bool) -> None:
        self._problems.note(type(error).__name__, str(error))
        secs = BACK_OFF_SECS[min(self._failures, len(BACK_OFF_SECS) - 1)]
        self._failures += 1
        self._away_until = self._clock.monotonic() + (min(secs, BACK_OFF_SECS[0]) if closing else secs)
