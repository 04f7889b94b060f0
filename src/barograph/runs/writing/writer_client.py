"""Client of the writer process in the training process: queues records and sends them."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

from barograph.machine.descriptors import Descriptor, above_standard
from barograph.model.key import Key
from barograph.model.launch import LAUNCH_VARIABLE
from barograph.model.manifest import EndState, Heartbeat
from barograph.model.origin import Option
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.model.trace import BatchFed
from barograph.processes.command import environment_without, own_module
from barograph.processes.local_process import DEVNULL, LocalProcess
from barograph.runs.format.pending import CompactStep, Pending, Points, compact, without_subjects
from barograph.runs.state.claim import new_claim
from barograph.runs.state.control import Done
from barograph.runs.state.problems import Problems
from barograph.runs.state.process import this_process
from barograph.runs.writing.inbox import Inbox
from barograph.runs.writing.patience import wait_while_working
from barograph.runs.writing.record_writer import Closing, RecordWriter
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

_TURN_SECS = 0.1
_STATUS_SECS = 0.5
_MARGIN_SECS = 1.0
_MOST_RESTARTS = 3
_MOST_TRIES = 3
_NO_REPLY = ("the writer process did not answer, so its last records may be lost")


class AroundTraining(Protocol):
    """Source of opened files, output and options of a training script."""

    def opened_since(self, number: int) -> tuple[Sequence[str], int]:
        """Return the files opened, from that index on, and the number of files not listed."""
        ...

    def take_printed(self) -> tuple[list[tuple[str, str]], int]:
        """Return the output since the last call, by stream, and the number of characters left out."""
        ...

    def options_seen(self) -> dict[str, Option]:
        """Return the options that the script's parser has parsed so far."""
        ...


@dataclass(slots=True)
class _Parcel:
    """Data on its way to the writer process."""

    points: Points
    held_bytes: int
    steps: list[CompactStep] = field(default_factory=list)
    batches: list[BatchFed] = field(default_factory=list)
    tries: int = 0
    urgent: bool = False
    with_status: bool = True


class WriterClient(RecordWriter):
    """Writes the records of one worker through a separate process. Callbacks run in a background thread.

    Args:
        url: URL of the run.
        attempt: Number of the attempt.
        rank: Rank of this process; None without ranks.
        world_size: Number of ranks.
        versions: Versions of packages in this process.
        settings: See `RunWriter`.
        status: Returns the state of the training.
        on_stop: Called when the training is asked to stop.
        on_request: Called with any other request.
        reports: Returns the results of requests, from that index on.
        on_loss: Called with the reason when records are lost.
        on_trouble: Called with a problem that the user should see, although nothing is lost yet.
        around: Source of opened files, output and options; None: not recorded.
        start: Starts the process and returns it with our end of the connection.
        claim: Claim of this worker's slot in the run; "": a new random one.

    Raises:
        OSError: The process cannot be started.
    """

    def __init__(
        self,
        url: str,
        *,
        attempt: int,
        rank: int | None,
        world_size: int,
        versions: Mapping[str, str],
        settings: Settings,
        status: Callable[[], Heartbeat],
        on_stop: Callable[[StopMessage], object],
        on_loss: Callable[[str], None],
        on_trouble: Callable[[str], None],
        on_request: Callable[[ActionMessage], object] = lambda asked: None,
        reports: Callable[[int], tuple[Done, ...]] = lambda start: (),
        around: AroundTraining | None = None,
        start: Callable[[], tuple[LocalProcess, Connection]] | None = None,
        claim: str = "",
    ) -> None:
        self._settings = settings
        self._status = status
        self._on_stop, self._on_request = on_stop, on_request
        self._reports, self._reported = reports, 0
        self._around, self._sent_opened, self._sent_beyond = around, 0, 0
        self._sent_options: dict[str, Option] = {}
        self._on_loss, self._on_trouble = on_loss, on_trouble
        self._inbox = Inbox(settings.queue_bytes)
        self._problems = Problems()
        self._unsent: _Parcel | None = None
        self._subjects: tuple[Subject, ...] | None = None
        self._sent_drops = (0, 0, 0)
        self._sent_series = 0
        self._failed_steps = 0
        self._failed_points = 0
        self._restarts = 0
        self._status_sent_at = 0.0
        self._last_status = Heartbeat(beat=0, time_unix=time.time())
        self._deadline = math.inf
        self._ending: End | None = None
        self._closed: Closing | None = None
        self._reply: Closing | None = None
        self._closing = threading.Event()
        self._has_told_wait = False
        # The hot path of `run.log`, so without a call in between.
        self.log: Callable[[str, float, int, Mode, float], None] = self._inbox.log
        self._assignment = Assignment(
            url, attempt, rank, world_size, dict(versions), settings.to_json(), claim or new_claim(),
            process=this_process(),
        )
        self._start = start or _start
        self._process, self._line = self._start()
        self._line.send(self._assignment)
        self._thread = threading.Thread(target=self._run, name="barograph-writer", daemon=True)
        self._thread.start()

    def put(self, records: StepRecords | Pending) -> bool:
        """Queue the records of one step; never blocks. False: the queue is full, so they are dropped and counted."""
        return self._inbox.put(records)

    def put_numbers(self, step: Step, numbers: Mapping[Key, float]) -> bool:
        """Queue a step with only a few numbers; never blocks.

        Returns:
            False if the queue is full; the step is then dropped and counted.
        """
        return self._inbox.put_numbers(step, numbers)

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
    def problems(self) -> tuple[str, ...]:
        """Problems on our side of the connection."""
        return self._problems.texts

    def close(self, state: EndState, reason: str = "") -> Closing:
        """Send everything and wait until it is published.

        A writer process that uses no CPU time, because the store does not answer, gets slightly more than
        `close_timeout_secs`. On a busy machine it may not even have started, and all records would be lost, so as long
        as it works it gets thirty times that.

        Returns:
            What was published and lost. A second call returns the same.
        """
        if self._closed is not None:
            return self._closed
        self._inbox.shut()
        self._ending = End(state, reason)
        self._deadline = time.monotonic() + self._settings.close_timeout_secs + _MARGIN_SECS
        self._closing.set()
        self._inbox.urgent.set()
        wait_while_working(self._thread, self._settings.close_timeout_secs + _MARGIN_SECS,
                           cpu_secs=lambda _: self._writer_cpu_secs())
        self._closed = self._reply or self._closing_without_reply()
        return self._closed

    def _writer_cpu_secs(self) -> float | None:
        """Return the CPU time of the writer process while the end waits for it; tell the user if that takes long."""
        from barograph.machine.cpu_use import process_cpu_secs  # psutil

        if time.monotonic() >= self._deadline and not self._has_told_wait:
            self._has_told_wait = True
            self._on_trouble("the machine is busy, so the last records are still being written")
        return process_cpu_secs(self._process.pid)

    def _closing_without_reply(self) -> Closing:
        unsent = self._unsent
        steps, points = (len(unsent.steps), len(unsent.points.points)) if unsent else (0, 0)
        return Closing(
            complete=False,
            lost_steps=self._inbox.waiting_steps + steps, lost_points=self._inbox.waiting_points + points,
            dropped_steps=self._inbox.dropped_steps + self._failed_steps,
            dropped_points=self._inbox.dropped_points + self._failed_points,
            problems=(*self._problems.texts, _NO_REPLY),
        )

    def after_fork_in_child(self) -> None:
        """Close the child's copy of the connection, so that the writer process notices the end of training."""
        # Take no lock here: a thread that does not exist in the child may hold it.
        with contextlib.suppress(OSError):
            self._line.close()

    def _run(self) -> None:
        while True:
            try:
                self._serve()
                return
            except (OSError, EOFError) as error:
                if not self._begin_again(error):
                    return
            except Exception as error:  # noqa: BLE001 - the thread must continue; the training process reports it once
                self._note(error)
            # A failure now may repeat forever, and must not take the training's time.
            time.sleep(_TURN_SECS)
            if time.monotonic() >= self._deadline:
                return

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._inbox.urgent.wait(_TURN_SECS)
            self._deliver()
            self._report()
            self._send_surroundings()
            self._hear()
        self._deliver_last()
        self._report()
        self._send_surroundings()
        self._line.send(self._ending)
        self._await_reply()

    def _report(self) -> None:
        done = self._reports(self._reported)
        if done:
            self._line.send(Reports(done))
            self._reported += len(done)

    def _send_surroundings(self) -> None:
        if self._around is None:
            return
        opened, beyond = self._around.opened_since(self._sent_opened)
        printed, left_out = self._around.take_printed()
        options = self._around.options_seen()
        news = options if options != self._sent_options else None
        if opened or printed or left_out or news is not None or beyond != self._sent_beyond:
            self._line.send(Around(tuple(opened), beyond, tuple(printed), left_out, news))
            self._sent_options = options
            self._sent_opened, self._sent_beyond = self._sent_opened + len(opened), beyond

    def _deliver_last(self) -> None:
        # Objects that cannot be pickled must not prevent the last message.
        for _ in range(_MOST_TRIES + 1):
            try:
                if self._deliver(last=True):
                    return
            except (OSError, EOFError):
                raise
            except Exception as error:  # noqa: BLE001 - see `_run`
                self._note(error)
                time.sleep(_TURN_SECS)

    def _deliver(self, *, last: bool = False) -> bool:
        """Send the queue; False if that failed for good."""
        if self._unsent is None:
            is_urgent = self._inbox.take_urgent()
            pending, points = self._inbox.take()
            batches = self._inbox.take_batches()
            now = time.monotonic()
            is_due = last or is_urgent or now - self._status_sent_at >= _STATUS_SECS
            if not (pending or batches or len(points.points) or is_due):
                return True
            self._unsent = self._parcel(pending, points)
            self._unsent.batches, self._unsent.urgent, self._unsent.with_status = batches, is_urgent, is_due
            if is_due:
                self._status_sent_at = now
        # Kept until it was sent, in case the writer process is gone.
        parcel = self._unsent
        parcel.tries += 1
        try:
            self._send(parcel)
        except (OSError, EOFError):
            raise
        except Exception:
            if parcel.tries < _MOST_TRIES:
                raise
            self._failed_steps += len(parcel.steps)
            self._failed_points += len(parcel.points.points)
            self._let_go(parcel)
            return False
        self._let_go(parcel)
        return True

    def _let_go(self, parcel: _Parcel) -> None:
        self._inbox.hold(-parcel.held_bytes)
        self._unsent = None

    def _note(self, error: Exception) -> None:
        self._problems.note(repr(error), f"Connection to the writer process: {error!r}")

    def _parcel(self, pending: list[tuple[Pending, int]], points: Points) -> _Parcel:
        parcel = _Parcel(points, points.points.nbytes)
        for item, size_bytes in pending:
            parcel.held_bytes += size_bytes
            try:
                parcel.steps.append(compact(item.resolve()))
            except Exception as error:  # noqa: BLE001 - an error in one step must not end the thread; it is reported
                self._failed_steps += 1
                self._problems.note("resolve", f"A step could not be recorded: {error!r}")
        return parcel

    def _send(self, parcel: _Parcel) -> None:
        subjects = parcel.steps[-1].subjects if parcel.steps else self._subjects
        series = parcel.points.series
        dropped = (self._inbox.dropped_steps + self._failed_steps, self._inbox.dropped_points + self._failed_points,
                   self._inbox.dropped_batches)
        status = self._status_now() if parcel.with_status or parcel.tries > 1 else None
        self._line.send(Delivery(
            subjects=subjects if subjects is not self._subjects else None,
            steps=tuple(without_subjects(step) for step in parcel.steps),
            new_series=tuple(series[self._sent_series :]), points=parcel.points.points,
            status=replace(status, problems=(*status.problems, *self._problems.texts)) if status else None,
            dropped_steps=dropped[0] - self._sent_drops[0], dropped_points=dropped[1] - self._sent_drops[1],
            batches=tuple(parcel.batches), dropped_batches=dropped[2] - self._sent_drops[2],
            urgent=parcel.urgent,
        ))
        self._subjects, self._sent_series, self._sent_drops = subjects, len(series), dropped

    def _status_now(self) -> Heartbeat:
        try:
            self._last_status = self._status()
        except Exception as error:  # noqa: BLE001 - records matter more than progress; it is reported
            self._problems.note("status", f"The status of the training could not be reported: {error!r}")
        return self._last_status

    def _begin_again(self, error: Exception) -> bool:
        """Restart a writer process that is gone, up to a limit; False if that fails."""
        why = f"the writer process has ended ({error or type(error).__name__})"
        try:
            if self._restarts >= _MOST_RESTARTS:
                raise OSError("it was restarted too often")
            self._restarts += 1
            self._line.close()
            self._process.kill()
            self._process.wait()
            self._process, self._line = self._start()
            self._line.send(replace(self._assignment, again=True))
        except (OSError, RuntimeError) as second:
            self._problems.note("line", f"{why}, and {second}; nothing more is recorded")
            self._on_loss(f"{why}, and {second}; nothing more is recorded")
            self._inbox.shut()
            return False
        self._subjects, self._sent_series, self._sent_drops = None, 0, (0, 0, 0)
        self._status_sent_at = 0.0
        self._sent_opened = self._sent_beyond = 0
        self._sent_options = {}
        self._reported = 0  # the old process may not have written it; writing it twice changes nothing
        self._on_loss(f"{why} and was restarted; steps of the last second may be lost")
        return True

    def _hear(self) -> None:
        while self._line.poll(0):
            message = self._line.recv()
            if isinstance(message, StopMessage):
                self._on_stop(message)
            elif isinstance(message, ActionMessage):
                self._on_request(message)
            elif isinstance(message, Trouble):
                self._on_trouble(message.text)
            elif isinstance(message, Closing):
                self._reply = message
                return  # the last message: the connection closes after it, and nothing is lost

    def _await_reply(self) -> None:
        while self._reply is None and self._closed is None:
            if self._line.poll(_TURN_SECS):
                self._hear()
        # It may be waiting for an unresponsive store; it exits on its own.
        if self._process.wait(_MARGIN_SECS) is None:
            self._process.let_go()


class _Line(Connection):
    """Our end of the connection. If the script closed its descriptor, a reused one is neither written nor closed."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle)
        self._descriptor = Descriptor(handle)

    def send(self, obj: Any) -> None:
        self._check()
        super().send(obj)

    def poll(self, timeout: float | None = 0.0) -> bool:
        self._check()
        return super().poll(timeout)

    def _check(self) -> None:
        if not self._descriptor.is_ours:
            raise OSError("the script has closed its file descriptor")

    def _close(self) -> None:
        self._descriptor.close()


def _above_standard(line: socket.socket) -> socket.socket:
    """Return the socket with a descriptor above those of the standard streams, which may be closed."""
    return socket.socket(fileno=above_standard(line.detach()))


def _start() -> tuple[LocalProcess, Connection]:
    """Start a writer process; return it with our end of the connection."""
    ours, theirs = map(_above_standard, socket.socketpair())
    try:
        with theirs:
            command = own_module("barograph.runs.writing.writer_process", str(theirs.fileno()),
                                 environment=environment_without([LAUNCH_VARIABLE]))
            # In its own session: Ctrl-C in the terminal is for the training.
            process = LocalProcess(command, stdout=DEVNULL, stderr=DEVNULL, pass_fds=(theirs.fileno(),))
    except OSError:
        ours.close()
        raise
    return process, _Line(ours.detach())
