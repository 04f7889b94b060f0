"""Writes the records of a worker: a queue accepts them immediately, and a thread publishes them.

The training thread only touches the `Inbox`. The writer thread also imports Arrow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barograph.model.clock import Clock, SystemClock
from barograph.model.key import Key
from barograph.model.manifest import EndState, Heartbeat, Worker
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.model.trace import BatchFed
from barograph.runs.format.pending import Pending
from barograph.runs.state.problems import Problems
from barograph.runs.writing.inbox import Inbox
from barograph.runs.writing.patience import wait_while_working
from barograph.runs.writing.record_writer import Closing, RecordWriter
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.machine.sampler import Sampler
    from barograph.runs.writing.publisher import Publisher

_TURN_SECS = 0.1


class RunWriter(RecordWriter):
    """Writes the records of one worker.

    Args:
        store: Store of the run.
        worker: Worker, as returned by `claim_worker`.
        settings: Uses `flush_secs`, `queue_bytes`, `close_timeout_secs`, `keep_last` and `max_bytes`.
        clock: Clock.
        status: Returns the state of the training for the heartbeat; called in the writer thread.
        on_control: Called in the writer thread every half second with the store, to look for requests.
        background: Publish from a thread. False: only `turn` and `close` publish.
        wait: Sleeps for some seconds, if `close` has no thread to wait for.
        first_chunk: Sequence number of the first chunk, after those of an earlier writer of this worker.
        inbox: Queue with records from before the writer existed; None: a new one.
        sampler: Creates the machine sampler, in the writer thread; None: no machine metrics.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker,
        *,
        settings: Settings,
        status: Callable[[], Heartbeat],
        clock: Clock | None = None,
        on_control: Callable[[Store], object] | None = None,
        background: bool = True,
        wait: Callable[[float], object] = time.sleep,
        first_chunk: int = 0,
        inbox: Inbox | None = None,
        sampler: Callable[[], Sampler] | None = None,
    ) -> None:
        self.worker = worker
        self._store = store
        self._settings = settings
        self._clock = clock or SystemClock()
        self._status = status
        self._on_control = on_control
        self._wait = wait
        self._first_chunk = first_chunk
        self._inbox = inbox or Inbox(settings.queue_bytes)
        self._problems = Problems()
        self._sampler = sampler
        self._publisher: Publisher | None = None
        self._closing = threading.Event()
        self._ending: tuple[EndState, str] | None = None
        self._deadline = float("inf")
        self._complete = False
        self._closed: Closing | None = None
        # The hot path of `run.log`, so without a call in between: queues one number of a series.
        # (name, value, step, mode, time_unix) -> None; drops and counts it when the queue is full.
        self.log: Callable[[str, float, int, Mode, float], None] = self._inbox.log
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._run, name="barograph-writer", daemon=True)
            self._thread.start()

    def put(self, records: StepRecords | Pending) -> bool:
        """Queue the records of one step; never blocks.

        Args:
            records: The records, or an object that the writer thread resolves to them. Do not change it afterwards.

        Returns:
            False if the queue is full or the writer closed; the step is then dropped and counted.
        """
        return self._inbox.put(records)

    def put_numbers(self, step: Step, numbers: Mapping[Key, float]) -> bool:
        """Queue a step with only a few numbers; never blocks.

        Returns:
            False if the queue is full; the step is then dropped and counted.
        """
        return self._inbox.put_numbers(step, numbers)

    def note(self, numbers: Mapping[Key, float], *, step: int, time_unix: float) -> bool:
        """Queue numbers that belong to no step, with the current step; see `Inbox.note`."""
        return self._inbox.note(numbers, step=step, time_unix=time_unix)

    def channel(self, keys: Sequence[Key], optimizer: str) -> Callable[[int, int, float, Sequence[float]], bool]:
        """Return a function that queues the same numbers for each training step; see `Inbox.channel`."""
        return self._inbox.channel(keys, optimizer)

    def put_batches(self, batches: Sequence[BatchFed]) -> None:
        """Queue the batches of a step; never blocks. If the queue is full, they are dropped and counted."""
        self._inbox.put_batches(batches)

    def flush(self) -> None:
        """Have what is queued published now; never blocks."""
        self._inbox.urgent.set()

    @property
    def dropped_steps(self) -> int:
        """Steps dropped so far."""
        return (self._publisher or self._inbox).dropped_steps

    @property
    def dropped_points(self) -> int:
        """Logged numbers dropped so far."""
        return (self._publisher or self._inbox).dropped_points

    @property
    def chunks(self) -> int:
        """Chunks published so far."""
        return self._publisher.chunks if self._publisher else 0

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems so far, the first of each cause."""
        return self._problems.texts

    def turn(self) -> None:
        """Run one iteration of the writer thread; for tests with `background=False`."""
        self._publish().turn()

    def close(self, state: EndState, reason: str = "") -> Closing:
        """Publish the queue and write the ending; wait at most `close_timeout_secs` for the store.

        Args:
            state: How the worker ended.
            reason: Why, for people.

        Returns:
            What was published and lost. A second call returns the same.
        """
        return self._close((state, reason))

    def abandon(self) -> Closing:
        """Publish the queue without an ending, because the training process was killed."""
        return self._close(None)

    def after_fork_in_child(self) -> None:
        """Do nothing: the writer thread exists only in the parent."""

    def _close(self, ending: tuple[EndState, str] | None) -> Closing:
        if self._closed is not None:
            return self._closed
        self._inbox.shut()
        self._ending = ending
        self._deadline = self._clock.monotonic() + self._settings.close_timeout_secs
        self._closing.set()
        self._inbox.urgent.set()
        if self._thread is not None:
            if not wait_while_working(self._thread, self._settings.close_timeout_secs):
                waited_secs = self._settings.close_timeout_secs
                self._problems.note("silent", f"The store did not answer within {waited_secs:g} s.")
        else:
            self._drain()
        publisher = self._publisher
        self._closed = Closing(
            complete=self._complete,
            lost_steps=publisher.unpublished_steps if publisher else self._inbox.waiting_steps,
            lost_points=publisher.unpublished_points if publisher else self._inbox.waiting_points,
            dropped_steps=self.dropped_steps,
            dropped_points=self.dropped_points,
            problems=self.problems,
        )
        return self._closed

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._publish().turn()
            except Exception as error:  # noqa: BLE001 - the thread must continue; reported in the heartbeat
                self._problems.note(repr(error), f"The writer failed: {error!r}")
            self._inbox.urgent.wait(_TURN_SECS)
        try:
            self._drain()
        except Exception as error:  # noqa: BLE001 - see above; `close` reports unpublished records
            self._problems.note(repr(error), f"The writer failed: {error!r}")

    def _drain(self) -> None:
        publisher = self._publish()
        publisher.stop_sampling()
        while True:
            publisher.turn(closing=True)
            if not publisher.unpublished_steps and not publisher.unpublished_points:
                self._complete = self._ending is None or publisher.finish(*self._ending)
            if self._complete or self._clock.monotonic() >= self._deadline:
                return
            self._wait(_TURN_SECS)

    def _publish(self) -> Publisher:
        if self._publisher is None:
            from barograph.runs.writing.publisher import Publisher

            self._publisher = Publisher(
                self._store, self.worker, settings=self._settings, clock=self._clock, inbox=self._inbox,
                status=self._status, on_control=self._on_control, problems=self._problems,
                first_chunk=self._first_chunk, sampler=self._sampler,
            )
        return self._publisher
