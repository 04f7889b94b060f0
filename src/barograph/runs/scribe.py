"""Writes a run from a process of its own, so that publishing takes no time from the thread that trains.

Encoding and storing are mostly Python's work, and a thread that does them beside a training makes every
operation of the training wait for the interpreter's lock: a step of one millisecond took nearly twice as
long. So the training process only hands over bytes, and this one does the rest.

Whoever is killed, what had been handed over is published: when the other end of the line falls silent
without a word, the scribe publishes what it has, writes no ending, and ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from barograph.errors import StoreError
from barograph.model.clock import SystemClock
from barograph.model.manifest import EndState, Heartbeat, Worker
from barograph.model.records import Subject
from barograph.model.settings import Settings, settings_from_mapping
from barograph.runs.claim import claim_worker, next_chunk_of
from barograph.runs.control import agreed_stop_step, read_stop
from barograph.runs.process import parent_process
from barograph.runs.scribe_messages import Assignment, Delivery, End, StopAsked
from barograph.runs.writer import RunWriter
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.store.base import Store

_NICENESS = 5
_LINE_POLL_SECS = 0.5
_CLAIM_AGAIN_SECS = 0.5
_HEARD_SECS = 2.0
"""Within this time every worker has heard that it is to stop: each looks twice a second."""


@dataclass(slots=True)
class _Scribe:
    """One scribe at work.

    Attributes:
        line: To the training process.
        assignment: What to write.
        employer: The training process's number, to see that it lives when the line is silent.
    """

    line: Connection
    assignment: Assignment
    employer: int
    _status: Heartbeat | None = None
    _subjects: tuple[Subject, ...] = ()
    _writer: RunWriter | None = None
    _early: list[Delivery] = field(default_factory=list)
    _early_bytes: int = 0
    _stop_reason: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self) -> None:
        """Write until the training process says how it ended, or is gone."""
        settings = settings_from_mapping(self.assignment.settings)
        # The line is read at once, whatever the store does: training must never wait for us.
        threading.Thread(target=self._claim, args=(settings,), name="barograph-claim", daemon=True).start()
        end = self._listen()
        writer = self._claimed_within(settings.close_timeout_secs)
        if writer is None:
            return
        if end is None and not self._stop_reason:
            writer.abandon()
            return
        # Of workers that are stopped together the first to end has its launcher end the others.
        end = end or End(EndState.STOPPED, self._stop_reason)
        closing = writer.close(end.state, end.reason)
        with contextlib.suppress(OSError):
            self.line.send(closing)

    def _listen(self) -> End | None:
        while True:
            try:
                if not self.line.poll(_LINE_POLL_SECS):
                    if os.getppid() != self.employer:
                        return None
                    continue
                message = self.line.recv()
            except (EOFError, OSError, pickle.UnpicklingError):
                return None
            if isinstance(message, End):
                return message
            self._receive(message)

    def _receive(self, delivery: Delivery) -> None:
        with self._lock:
            self._status = delivery.status
            if self._writer is None:
                self._early.append(self._within_bounds(delivery))
            else:
                self._hand_on(delivery, self._writer)

    def _within_bounds(self, delivery: Delivery) -> Delivery:
        """Return what of a delivery there is room for while the run cannot be written yet."""
        size_bytes = sum(step.size_bytes for step in delivery.steps) + delivery.points.points.nbytes
        if self._early_bytes + size_bytes <= self.assignment.settings["queue_bytes"]:
            self._early_bytes += size_bytes
            return delivery
        points = delivery.points
        return replace(
            delivery, steps=(), points=replace(points, points=points.points[:0]),
            dropped_steps=delivery.dropped_steps + len(delivery.steps),
            dropped_points=delivery.dropped_points + len(points.points),
        )

    def _hand_on(self, delivery: Delivery, writer: RunWriter) -> None:
        if delivery.subjects is not None:
            self._subjects = delivery.subjects
        for step in delivery.steps:
            writer.put(replace(step, subjects=self._subjects))
        writer.add_points(delivery.points)
        writer.add_dropped(delivery.dropped_steps, delivery.dropped_points)

    def _claim(self, settings: Settings) -> None:
        try:
            self._begin(settings)
        except Exception:  # noqa: BLE001 - whatever it was, the training process sees that we are gone, and tells it
            os._exit(1)

    def _begin(self, settings: Settings) -> None:
        store = store_from_url(self.assignment.url)
        while True:
            try:
                worker, first_chunk = self._place(store)
            except StoreError:
                # Away for now. What was recorded waits here.
                time.sleep(_CLAIM_AGAIN_SECS)
                continue
            break

        def look_for_stop(store: Store) -> None:
            request = None if self._stop_reason else read_stop(store, attempt=worker.attempt)
            if request is None:
                return
            after_steps = 0
            if worker.world_size > 1:
                after_steps = agreed_stop_step(store, attempt=worker.attempt, proposed=self._step_ahead())
            self._stop_reason = request.reason
            with contextlib.suppress(OSError):
                self.line.send(StopAsked(request.reason, after_steps))

        writer = RunWriter(store, worker, settings=settings, status=self._how_it_goes, on_control=look_for_stop,
                           first_chunk=first_chunk)
        with self._lock:
            for delivery in self._early:
                self._hand_on(delivery, writer)
            self._early.clear()
            self._writer = writer

    def _place(self, store: Store) -> tuple[Worker, int]:
        """Return the worker whose records these are, and its first chunk to publish."""
        order = self.assignment
        worker = claim_worker(
            store, attempt=order.attempt, rank=order.rank, world_size=order.world_size, clock=SystemClock(),
            versions=order.versions, process=parent_process(), claim=order.claim,
        )
        return worker, next_chunk_of(store, worker) if order.again else 0

    def _claimed_within(self, secs: float) -> RunWriter | None:
        deadline = time.monotonic() + secs
        while self._writer is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return self._writer

    def _step_ahead(self) -> int:
        """Return a step that no worker makes before all have heard of it."""
        last = self._how_it_goes()
        steps = math.ceil(_HEARD_SECS / last.step_secs) if last.step_secs > 0 else 0
        return last.step + steps + 2

    def _how_it_goes(self) -> Heartbeat:
        return self._status or Heartbeat(beat=0, time_unix=time.time())


def main(line_number: int) -> None:
    """Serve the training process at the other end of a line.

    Args:
        line_number: File descriptor of our end.
    """
    # Ours is the last word, so nothing that is meant for the training ends us; its death does.
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
    _Scribe(line, assignment, employer).work()


if __name__ == "__main__":
    main(int(sys.argv[1]))
