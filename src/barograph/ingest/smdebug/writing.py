"""Writes a run from steps in smdebug's terms."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence

from barograph.errors import BarographError, ImportFailed, ObjectExists
from barograph.ingest.smdebug.book import Book
from barograph.ingest.smdebug.drafting import Array, Drafter
from barograph.ingest.smdebug.index import MODES
from barograph.ingest.smdebug.progress import Progress
from barograph.model.clock import ManualClock, SystemClock
from barograph.model.manifest import EndState, Worker
from barograph.model.settings import Settings
from barograph.model.step import Step
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import manifest_bytes
from barograph.runs.state.claim import begin_attempt, claim_worker
from barograph.runs.state.places import new_manifest
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import Store
from barograph.wire.tensor_proto import Texts

_UNLIMITED_BYTES = 1 << 62
_CHUNK_SECS = 10.0
_CLOSE_SECS = 600.0
_MOST_PROBLEMS = 20

NOT_SAVED = "only what smdebug was configured to save was recorded"
"""What the coverage of an imported run lists as not recorded."""


class BookWriter:
    """Writes an imported run, one worker after another. The first worker starts the run.

    Args:
        store: Place of the run.
        book: smdebug's names; written at the end.
        workers: Number of workers.
    """

    def __init__(self, store: Store, book: Book, *, workers: int) -> None:
        self._store = store
        self._book = book
        self._count = workers
        self._clock = SystemClock()
        self._settings = Settings(to=store.url, budget=None, queue_bytes=_UNLIMITED_BYTES, flush_secs=_CHUNK_SECS,
                                  close_timeout_secs=_CLOSE_SECS, machine_hz=0.0, trace=False)
        self._drafter = Drafter(book)
        self._began_unix: float | None = None
        self._last_unix = 0.0
        self._writer: RunWriter | None = None
        self._progress = Progress(NOT_SAVED)

    def begin(self, worker: str, time_unix: float) -> None:
        """Start a worker.

        Args:
            worker: smdebug's name of the worker.
            time_unix: Time of its first step; NaN: unknown.

        Raises:
            ImportFailed: Another process has started a run there.
            StoreError: It cannot be written.
        """
        if self._began_unix is None:
            self._begin_run(self._clock.unix() if math.isnan(time_unix) else time_unix)
        rank = len(self._book.workers) if self._count > 1 else None
        declared = self._declared(worker, rank)
        self._book.workers[declared.name] = worker
        self._progress = Progress(NOT_SAVED)
        self._last_unix = self._began_unix or 0.0
        self._writer = RunWriter(self._store, declared, settings=self._settings, status=self._progress.heartbeat,
                                 clock=_ThenClock(self), background=False)

    def put(
        self, global_step: int, mode: str, mode_step: int, time_unix: float, values: Mapping[str, Array | Texts],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Write a step of the worker.

        Args:
            global_step: smdebug's count over all modes; Barograph's tick.
            mode: smdebug's name of the mode.
            mode_step: Step within that mode.
            time_unix: Time; NaN: unknown.
            values: Name to value.
            shapes: Name to separately saved shape.

        Raises:
            ImportFailed: The run cannot be written.
        """
        if not math.isnan(time_unix):
            self._last_unix = time_unix
        step = Step(global_step, mode_step, self._book.optimizer_of(mode), MODES[mode], self._last_unix)
        writer = self._open()
        records = self._drafter.records(step, values, shapes)
        self._progress.take(step, {self._book.naming.key(name).kind for name in values}, self._book)
        writer.put(records)
        writer.turn()
        self._check(writer)

    def end(self, state: EndState, problems: Sequence[str] = ()) -> None:
        """End the worker.

        Raises:
            ImportFailed: The run cannot be written.
        """
        writer, self._writer = self._open(), None
        self._progress.problems = tuple(problems[:_MOST_PROBLEMS])
        closing = writer.close(state)
        if not closing.complete:
            raise ImportFailed(f"Cannot write the run: {'; '.join(closing.problems)} ({self._store.url}).")

    def finish(self) -> None:
        """Write smdebug's names, after the last worker."""
        self._book.put(self._store)

    def give_up(self, reason: str) -> None:
        """End after an error, with the reason in the run, if it can be written."""
        if self._writer is not None:
            with contextlib.suppress(BarographError):
                self._writer.close(EndState.FAILED, reason)

    @property
    def reached_unix(self) -> float:
        """Time of the last written step."""
        return self._last_unix

    def _begin_run(self, began_unix: float) -> None:
        self._began_unix = began_unix
        manifest = new_manifest(self._settings, command=(), clock=ManualClock(unix=began_unix))
        try:
            self._store.create(MANIFEST, manifest_bytes(manifest))
        except ObjectExists:
            raise ImportFailed("Another process has started a run there. Choose another place "
                               f"({self._store.url}).") from None
        begin_attempt(self._store, 0, started_unix=began_unix)

    def _declared(self, worker: str, rank: int | None) -> Worker:
        return claim_worker(self._store, attempt=0, clock=ManualClock(unix=self._began_unix or 0.0), rank=rank,
                            world_size=self._count, device=worker)

    def _open(self) -> RunWriter:
        if self._writer is None:
            raise ImportFailed("No worker was started.")
        return self._writer

    def _check(self, writer: RunWriter) -> None:
        if writer.problems:
            raise ImportFailed(f"Cannot write the run: {'; '.join(writer.problems)} ({self._store.url}).")


class _ThenClock(SystemClock):
    """A clock at the time of the imported records, so that metadata has the duration of the training."""

    def __init__(self, writer: BookWriter) -> None:
        self._writer_of_times = writer

    def unix(self) -> float:
        return self._writer_of_times.reached_unix
