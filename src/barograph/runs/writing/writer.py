"""How a training process writes its run: records are taken in at once, a thread of its own publishes them.

The thread that trains only touches the `Inbox`; Arrow is loaded by the writer's own thread, too.
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
    """Writes what one worker records.

    Args:
        store: Where the run is.
        worker: Who writes, as `claim_worker` returned it.
        settings: `flush_secs`, `queue_bytes`, `close_timeout_secs`, `keep_last` and `max_bytes` are used.
        clock: Time.
        status: Tells how training goes, for the heartbeat; called in the writer's thread.
        on_control: Called in the writer's thread every half second with the store, to see what is asked.
        background: Publish from a thread. False: nothing happens but in `turn` and `close`.
        wait: Lets some seconds pass, where `close` has no thread to wait for.
        first_chunk: Sequence number of the first chunk: past those of a writer of this worker that is gone.
        inbox: Where records are taken in, if some were before there was a writer; None: a new one.
        sampler: Makes, in the writer's thread, what tells of the machine; None: nobody does.
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
        # The hot path of `run.log`, so without a call in between: takes in the number of a series.
        # (name, value, step, mode, time_unix) -> None; drops and counts it when the queue is full.
        self.log: Callable[[str, float, int, Mode, float], None] = self._inbox.log
        self._thread: threading.Thread | None = None
        if background:
            self._thread = threading.Thread(target=self._run, name="barograph-writer", daemon=True)
            self._thread.start()

    def put(self, records: StepRecords | Pending) -> bool:
        """Take in what was recorded in one step; never waits.

        Args:
            records: They, or what will resolve to them in the writer's thread. Not to be changed after.

        Returns:
            False when the queue was full, or the writer is closed; then the whole step was dropped, and counted.
        """
        return self._inbox.put(records)

    def put_numbers(self, step: Step, numbers: Mapping[Key, float]) -> bool:
        """Take in a step of which nothing but a few numbers was recorded; never waits.

        Returns:
            False when the queue was full, and the whole step was dropped, and counted.
        """
        return self._inbox.put_numbers(step, numbers)

    def note(self, numbers: Mapping[Key, float], *, step: int, time_unix: float) -> bool:
        """Take in numbers that belong to no step, with the step that is going on; see `Inbox.note`."""
        return self._inbox.note(numbers, step=step, time_unix=time_unix)

    def channel(self, keys: Sequence[Key], optimizer: str) -> Callable[[int, int, float, Sequence[float]], bool]:
        """Return what takes in the same few numbers of one training step after another; see `Inbox.channel`."""
        return self._inbox.channel(keys, optimizer)

    def put_batches(self, batches: Sequence[BatchFed]) -> None:
        """Take in what fed a step; never waits. When the queue is full the batches are dropped, and counted."""
        self._inbox.put_batches(batches)

    @property
    def dropped_steps(self) -> int:
        """Steps that were dropped so far."""
        return (self._publisher or self._inbox).dropped_steps

    @property
    def dropped_points(self) -> int:
        """Logged numbers that were dropped so far."""
        return (self._publisher or self._inbox).dropped_points

    @property
    def chunks(self) -> int:
        """Chunks published so far."""
        return self._publisher.chunks if self._publisher else 0

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong so far, first of each cause."""
        return self._problems.texts

    def turn(self) -> None:
        """Do once what the thread does ten times a second; for tests, with `background=False`."""
        self._publish().turn()

    def close(self, state: EndState, reason: str = "") -> Closing:
        """Publish what waits and write the ending; a store that does not answer is waited for `close_timeout_secs`.

        Args:
            state: How the worker ended.
            reason: Why, for people.

        Returns:
            What became of everything. A second call returns the same.
        """
        return self._close((state, reason))

    def abandon(self) -> Closing:
        """Publish what waits and write no ending: the process whose records these are was killed."""
        return self._close(None)

    def after_fork_in_child(self) -> None:
        """Do nothing: the thread that publishes exists in the parent only."""

    def _close(self, ending: tuple[EndState, str] | None) -> Closing:
        if self._closed is not None:
            return self._closed
        self._inbox.shut()
        self._ending = ending
        self._deadline = self._clock.monotonic() + self._settings.close_timeout_secs
        self._closing.set()
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
            except Exception as error:  # noqa: BLE001 - the thread must go on; it is reported in the heartbeat
                self._problems.note(repr(error), f"The writer failed: {error!r}")
            self._closing.wait(_TURN_SECS)
        try:
            self._drain()
        except Exception as error:  # noqa: BLE001 - as above; `close` reports that not all was published
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
