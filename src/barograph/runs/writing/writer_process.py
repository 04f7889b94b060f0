"""The writer process: it publishes a run without taking time from the training thread.

Encoding and storing are mostly Python code. In a thread of the training process they would make every
operation of the training wait for the GIL: a step of one millisecond took nearly twice as long. So the
training process only sends bytes, and this one does the rest.

If the training process is killed, records already sent are published: when the connection ends without a last
message, the writer process publishes what it has, writes no ending, and exits.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Protocol

from barograph.errors import StoreDenied, StoreError
from barograph.machine.open_files import OpenFiles
from barograph.model.clock import Clock, SystemClock
from barograph.model.manifest import EndState, Heartbeat, Worker
from barograph.model.records import Subject
from barograph.model.settings import settings_from_mapping
from barograph.runs.state.claim import claim_worker, next_chunk_of
from barograph.runs.state.control import Done, Request, Requests, StopRequest, agreed_step, agreed_stop_step, answer
from barograph.runs.state.output import OutputWriter
from barograph.runs.state.process import parent_process
from barograph.runs.writing.data_writer import DataWriter
from barograph.runs.writing.inbox import Inbox
from barograph.runs.writing.options_writer import OptionsWriter
from barograph.runs.writing.record_writer import Closing
from barograph.runs.writing.sampling import sampler_for
from barograph.runs.writing.writer import RunWriter
from barograph.runs.writing.writer_messages import (
    ActionMessage,
    Around,
    Assignment,
    Delivery,
    End,
    Reports,
    StopMessage,
    Trouble,
)
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.machine.sampler import Sampler
    from barograph.store.base import Store

_NICENESS = 5
_LINE_POLL_SECS = 0.5
_CLAIM_AGAIN_SECS = 0.5
REPORT_SECS = 5.0
"""Time after which the user gets a warning that the store does not accept the run."""
_STOP_REQUEST_SECS = 2.0
"""Time within which every worker receives a stop request: each polls twice a second."""


class Line(Protocol):
    """Interface of the connection to the training process."""

    def poll(self, timeout: float) -> bool:
        """Return whether a message arrives within this time."""
        ...

    def recv(self) -> object:
        """Return the next message."""
        ...

    def send(self, obj: object) -> None:
        """Send a message."""
        ...


class WriterProcess:
    """The state and loop of a writer process.

    Args:
        line: Connection to the training process.
        assignment: What to write.
        store: Store of the run.
        employer: Process ID of the training process, to check that it lives when the connection is silent.
        clock: Time.
        wait: Sleeps for some seconds.
        background: Publish from a thread, see `RunWriter`.
        sampler: Makes the sampler of machine metrics for the worker; None: none.
        files: Returns newly opened files of the training process.
    """

    def __init__(
        self,
        line: Line,
        assignment: Assignment,
        store: Store,
        *,
        employer: int,
        clock: Clock | None = None,
        wait: Callable[[float], object] = time.sleep,
        background: bool = True,
        sampler: Callable[[Worker], Sampler] | None = None,
        files: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        self._files = files
        self._sampler = sampler
        self._data = DataWriter(store, assignment.attempt)
        self._options = OptionsWriter(store, assignment.attempt, os.environ)
        self._printing = threading.Lock()
        self._output = OutputWriter(store, assignment.attempt, os.environ)
        self._line = line
        self._assignment = assignment
        self._store = store
        self._employer = employer
        self._clock = clock or SystemClock()
        self._wait = wait
        self._background = background
        self._settings = settings_from_mapping(assignment.settings)
        # Records from before the run can be written wait here, too, so they are bounded and counted the same way.
        self._inbox = Inbox(self._settings.queue_bytes)
        self._subjects: tuple[Subject, ...] = ()
        self._status: Heartbeat | None = None
        self._writer: RunWriter | None = None
        self._claimed = threading.Event()
        self._trouble = ""
        self._reported: set[type[StoreError]] = set()
        self._stop: StopRequest | None = None
        self._asked: list[Request] = []
        self._done: list[Done] = []
        self._stop_reason = ""
        self._last_step_if_stopped = 0

    def work(self) -> None:
        """Write until the training process reports its end, or is gone."""
        # Always read the connection at once, whatever the store does: training must never wait for us.
        threading.Thread(target=self._claim, name="barograph-claim", daemon=True).start()
        end = self._listen()
        self._claimed.wait(self._settings.close_timeout_secs)
        self._say(self.finish(end))

    def finish(self, end: End | None) -> Closing:
        """Publish pending records, and write how the training ended.

        Args:
            end: Report of the training process; None if it died.

        Returns:
            What was published and lost.
        """
        writer, inbox = self._writer, self._inbox
        if writer is None:
            return Closing(
                complete=False, lost_steps=inbox.waiting_steps, lost_points=inbox.waiting_points,
                dropped_steps=inbox.dropped_steps, dropped_points=inbox.dropped_points,
                problems=(self._trouble or "the store did not answer",),
            )
        if end is None and self._obeyed_stop():
            # When workers are stopped together, the launcher kills the others after the first has ended.
            end = End(EndState.STOPPED, self._stop_reason)
        with contextlib.suppress(StoreError):
            # Before the ending, after which readers stop. If the store is unavailable, the records report it.
            self._write_done(writer.worker)
        deadline = self._clock.monotonic() + self._settings.close_timeout_secs
        # Concurrently with the records, so that output and opened files take no extra time.
        around = threading.Thread(target=self._finish_around, args=(writer.worker.name,), daemon=True)
        around.start()
        closing = writer.abandon() if end is None else writer.close(end.state, end.reason)
        around.join(max(0.0, deadline - self._clock.monotonic()))
        return closing

    def _finish_around(self, worker: str) -> None:
        """Publish output, opened files and options; if the store is unavailable, the records report it."""
        with contextlib.suppress(StoreError):
            with self._printing:
                self._output.write(worker, last=True)
            self._options.write(worker)
            self._data.finish(worker)

    def receive(self, delivery: Delivery) -> None:
        """Accept records of the training process; those that do not fit into the queue are dropped and counted."""
        self._status = delivery.status or self._status
        if delivery.subjects is not None:
            self._subjects = delivery.subjects
        for step in delivery.steps:
            self._inbox.put(replace(step, subjects=self._subjects))
        self._inbox.add_points(delivery.points, delivery.new_series)
        if delivery.batches:
            self._inbox.put_batches(delivery.batches)
        self._inbox.add_dropped(delivery.dropped_steps, delivery.dropped_points, delivery.dropped_batches)
        if delivery.urgent:
            self._inbox.urgent.set()

    def take_surroundings(self, message: Around) -> None:
        """Accept output, opened files and options of the training."""
        self._data.add(message.opened, message.beyond)
        if message.options is not None:
            self._options.put(message.options)
        with self._printing:
            self._output.add(message.printed, message.left_out)

    def claim(self) -> RunWriter:
        """Return the writer of this worker as soon as the store allows; retry until then.

        The user gets a warning if that takes long, and immediately if the store denies it.
        """
        began = self._clock.monotonic()
        while True:
            try:
                worker, first_chunk = self._place()
            except StoreError as error:
                self._trouble = f"the run cannot be written yet; records are kept in memory: {error}"
                is_long = self._clock.monotonic() - began >= REPORT_SECS
                if (is_long or isinstance(error, StoreDenied)) and type(error) not in self._reported:
                    self._reported.add(type(error))
                    self._say(Trouble(self._trouble))
                self._wait(_CLAIM_AGAIN_SECS)
            else:
                break
        requests = Requests(worker.attempt, worker.name)
        self._writer = RunWriter(
            self._store, worker, settings=self._settings, status=self._how_it_goes, clock=self._clock,
            on_control=lambda store: self._look_for_requests(store, worker, requests), first_chunk=first_chunk,
            inbox=self._inbox, background=self._background, wait=self._wait,
            sampler=None if self._sampler is None else functools.partial(self._sampler, worker),
        )
        self._claimed.set()
        return self._writer

    def _claim(self) -> None:
        try:
            self.claim()
        except Exception:  # noqa: BLE001 - the training process detects and reports the end of this one
            os._exit(1)

    def _place(self) -> tuple[Worker, int]:
        """Return the worker whose records these are, and its first chunk to publish."""
        order = self._assignment
        worker = claim_worker(
            self._store, attempt=order.attempt, rank=order.rank, world_size=order.world_size, clock=self._clock,
            versions=order.versions, process=order.process or parent_process(), claim=order.claim,
        )
        return worker, next_chunk_of(self._store, worker) if order.again else 0

    def _listen(self) -> End | None:
        while True:
            try:
                if not self._line.poll(_LINE_POLL_SECS):
                    if os.getppid() != self._employer:
                        return None
                    continue
                message = self._line.recv()
            except (EOFError, OSError, pickle.UnpicklingError):
                return None
            if isinstance(message, End):
                return message
            if isinstance(message, Delivery):
                self.receive(message)
            elif isinstance(message, Reports):
                self._done += message.done
            elif isinstance(message, Around):
                self.take_surroundings(message)

    def _look_for_requests(self, store: Store, worker: Worker, requests: Requests) -> None:
        self._write_done(worker)
        with self._printing:
            self._output.write(worker.name)
        self._options.write(worker.name)
        self._data.add(self._files())
        self._data.write(worker.name)
        stop, asked = requests.look(store)
        # Kept until forwarded: the following steps access the store, too.
        self._stop = self._stop or stop
        self._asked += asked
        together = worker.world_size > 1
        if self._stop is not None and not self._stop_reason:
            after_steps, ahead = 0, self._step_ahead()
            if together:
                after_steps = agreed_stop_step(store, attempt=worker.attempt, proposed=ahead)
            self._last_step_if_stopped = max(after_steps, ahead)
            self._stop_reason = self._stop.reason
            self._say(StopMessage(self._stop.reason, after_steps, self._stop.finding_id, self._stop.checkpoint))
        while self._asked:
            first = self._asked[0]
            after_steps = agreed_step(store, first, proposed=self._step_ahead()) if together else 0
            self._say(ActionMessage(first, after_steps))
            del self._asked[0]

    def _write_done(self, worker: Worker) -> None:
        while self._done:
            answer(self._store, replace(self._done[0], worker=worker.name))
            del self._done[0]

    def _obeyed_stop(self) -> bool:
        """Return whether training was asked to stop and did: a script may catch that, and continue."""
        return bool(self._stop_reason) and self._how_it_goes().step <= self._last_step_if_stopped

    def _step_ahead(self) -> int:
        """Return a step that no worker reaches before all have received it."""
        last = self._how_it_goes()
        steps = math.ceil(_STOP_REQUEST_SECS / last.step_secs) if last.step_secs > 0 else 0
        return last.step + steps + 2

    def _how_it_goes(self) -> Heartbeat:
        return self._status or Heartbeat(beat=0, time_unix=self._clock.unix())

    def _say(self, message: object) -> None:
        with contextlib.suppress(OSError):
            self._line.send(message)


def main(line_number: int) -> None:
    """Serve the training process at the other end of a line.

    Args:
        line_number: File descriptor of our end.
    """
    # We send the last message, so signals for the training do not end us; its death does.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    employer = os.getppid()
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    line = Connection(line_number)
    try:
        assignment = line.recv()
    except (EOFError, OSError):
        return
    hz = assignment.settings["machine_hz"]
    sampler = functools.partial(sampler_for, hz=hz, clock=SystemClock()) if hz else None
    files = OpenFiles(employer, clock=time.monotonic).look if assignment.settings["origin"] else lambda: []
    WriterProcess(
        line, assignment, store_from_url(assignment.url), employer=employer, sampler=sampler, files=files
    ).work()


if __name__ == "__main__":
    main(int(sys.argv[1]))
