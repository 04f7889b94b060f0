"""The one recording of this process: how it begins, and how every way a process can end ends it."""

from __future__ import annotations

import atexit
import functools
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from barograph.capture.autostart import begin_if_armed
from barograph.capture.session import Rank, Session
from barograph.capture.trace import leave_out_our_frames
from barograph.errors import EXIT_STOPPED, AlreadyAttached, TrainingStopped
from barograph.model.clock import SystemClock
from barograph.model.launch import LAUNCH_VARIABLE, Launch, launch_from_environment
from barograph.model.manifest import CAUGHT, EndState, Heartbeat
from barograph.model.settings import Settings
from barograph.runs.claim import new_claim
from barograph.runs.scribe_line import ScribeLine

if TYPE_CHECKING:
    from barograph.capture.torch_resuming import Resuming
    from barograph.capture.torch_tap import TorchTap
    from barograph.model.capsule import CapsuleHead
    from barograph.model.resume import ResumeOrder
    from barograph.model.tensor import RawTensor
    from barograph.runs.scribe_messages import Asked, StopAsked
    from barograph.runs.writer import RunWriter
    from barograph.store.base import Store

_CHECKPOINT_SECS = 120.0
_CHECKPOINT_LOOK_SECS = 0.2

_current: Recording | None = None


class Recording:
    """A session together with the tap that feeds it, for the life of this process or of a `with` block.

    Args:
        launch: The run, and how to record it.
        only: Record only the models and optimizers that are handed over.
        explicit_steps: The script ends its steps itself.
    """

    def __init__(self, launch: Launch, *, only: bool = False, explicit_steps: bool = False) -> None:
        from barograph.capture.torch_tap import TorchTap

        self.url = launch.settings.to
        self._launch = launch
        self.session = Session(launch.settings, launch.needs, self._open_writer, rank=_rank)
        self.tap: TorchTap = TorchTap(self.session, only=only, explicit_steps=explicit_steps)
        self.session.attempt = launch.attempt
        self.session.save_checkpoint = self._save_checkpoint
        self.session.write_capsule = self._write_capsule
        self._claim = new_claim()
        self._write_answers: Callable[[], None] = lambda: None
        self._failure: tuple[EndState, str] | None = None
        self._afterwards: Callable[[], None] = lambda: None
        self._resuming: Resuming | None = None
        if launch.resume is None:
            self.tap.install()
        else:
            self._resuming = self._begin_resuming(launch.resume)

    def _begin_resuming(self, order: ResumeOrder) -> Resuming:
        """Take the script to its checkpoint first; nothing is recorded until it is there."""
        from barograph.capture.torch_resuming import begin_resuming
        from barograph.store.urls import store_from_url

        return begin_resuming(self.tap, store_from_url(self.url), order)

    def _open_writer(self, rank: Rank, status: Callable[[], Heartbeat]) -> RunWriter | ScribeLine:
        settings, attempt = self._launch.settings, self._launch.attempt
        if not self.url.startswith("memory:"):
            return ScribeLine(
                self.url, claim=self._claim, attempt=attempt, rank=rank.index, world_size=rank.world_size,
                versions=_versions(), settings=settings, status=status, on_stop=self._hear_stop, on_asked=self._hear,
                reports=self.session.orders.reports,
                on_loss=self.session.lost_some, on_trouble=self.session.guard.report,
            )
        writer, self._write_answers = _writer_in_this_process(
            self.session, settings, attempt, rank, status, self._claim)
        return writer

    def _hear_stop(self, asked: StopAsked) -> None:
        self.session.request_stop(asked.reason, asked.after_steps, finding_id=asked.finding_id,
                                  checkpoint=asked.checkpoint)

    def _hear(self, asked: Asked) -> None:
        self.session.orders.hear(asked.request, asked.after_steps)

    def _save_checkpoint(self) -> str:
        """Save what is known of this training into its run; return where."""
        from barograph.capture.torch_checkpoint import save
        from barograph.store.urls import store_from_url

        rank = _rank()
        store = store_from_url(self.url)
        if rank.index:
            # Replicas are the same, and one is saved by the first; it must not be ended meanwhile.
            wait_for_checkpoint(store, self._launch.attempt, self.session.steps_made)
            return ""
        who = "r0" if rank.index is not None else f"pid{os.getpid()}"
        name = save(store, self.tap.names, self.tap.optimizers, attempt=self._launch.attempt,
                    steps=self.session.steps_made, who=who)
        return f"{self.url.rstrip('/')}/{name}"

    def _write_capsule(
        self, head: CapsuleHead, content: Mapping[str, Any], tensors: Mapping[str, RawTensor], pickled: bytes | None
    ) -> str:
        """Write a capsule into the run, under the name that this process has there; return where."""
        from barograph.runs.capsules import write_capsule
        from barograph.runs.claim import claim_worker
        from barograph.store.urls import store_from_url

        rank, store = _rank(), store_from_url(self.url)
        # The writer may have claimed the place already, or not come to it yet: it is one place either way.
        worker = claim_worker(store, attempt=self._launch.attempt, rank=rank.index, world_size=rank.world_size,
                              clock=SystemClock(), versions=_versions(), claim=self._claim)
        mine = replace(head, attempt=worker.attempt, worker=worker.name, run_id=worker.run_id)
        folder = write_capsule(store, mine, content, tensors, pickled)
        return f"{self.url.rstrip('/')}/{folder}"

    @property
    def is_resuming(self) -> bool:
        """Whether the script is being taken to its checkpoint: what it forks meanwhile is no training."""
        return self._resuming is not None and not self._resuming.over

    def failed(self, kind: type[BaseException], error: BaseException | None) -> None:
        """Note with what exception the script ends."""
        if issubclass(kind, SystemExit) and self.session.stopped_by:
            return  # it heard that it was stopped, and chose its exit code
        if issubclass(kind, TrainingStopped):
            self._failure = (EndState.STOPPED, str(error))
        elif not (issubclass(kind, SystemExit) and getattr(error, "code", 1) in (None, 0)):
            text = str(error)
            self._failure = (EndState.FAILED, f"{kind.__name__}: {text}" if text else kind.__name__)

    def after_close(self, action: Callable[[], None]) -> None:
        """Have `action` called once everything was published, however the process ends."""
        self._afterwards = action

    def close(self) -> None:
        """Take out every hook, publish what is left, write how it ended; later calls do nothing."""
        global _current
        state, reason = self._failure or (EndState.FINISHED, "")
        if self._failure is None and self.session.stopped_by:
            state, reason = EndState.STOPPED, self.session.stopped_by + CAUGHT
        try:
            if self._resuming is not None:
                self._resuming.ends()
            self.session.close(state, reason)
            self._write_answers()
        finally:
            self.tap.remove()
            if _current is self:
                _current = None
                if not self.session.stopped_by:
                    # The exception that stops may still be on its way out of the script, and has its own exit code.
                    _end.forget()
            action, self._afterwards = self._afterwards, lambda: None
            action()


def _writer_in_this_process(
    session: Session, settings: Settings, attempt: int, rank: Rank, status: Callable[[], Heartbeat], claim: str
) -> tuple[RunWriter, Callable[[], None]]:
    """Return a writer with a thread of its own, for a run in memory, which no other process could write; and what
    writes the answers to requests."""
    from barograph.runs.claim import claim_worker
    from barograph.runs.control import Requests, answer
    from barograph.runs.sampling import sampler_for
    from barograph.runs.writer import RunWriter
    from barograph.store.urls import store_from_url

    store = store_from_url(settings.to)
    worker = claim_worker(
        store, attempt=attempt, rank=rank.index, world_size=rank.world_size, clock=SystemClock(), versions=_versions(),
        claim=claim,
    )

    requests = Requests(worker.attempt, worker.name)

    hz = settings.machine_hz
    sampler = functools.partial(sampler_for, worker, hz=hz, clock=SystemClock()) if hz else None

    def write_answers() -> None:
        for done in session.orders.reports():
            answer(store, replace(done, worker=worker.name))

    def look_for_requests(store: Store) -> None:
        write_answers()
        stop, asked = requests.look(store)
        if stop is not None:
            session.request_stop(stop.reason, finding_id=stop.finding_id, checkpoint=stop.checkpoint)
        for request in asked:
            session.orders.hear(request)

    writer = RunWriter(
        store, worker, settings=settings, status=status, on_control=look_for_requests, sampler=sampler
    )
    return writer, write_answers


def wait_for_checkpoint(store: Store, attempt: int, steps: int, timeout_secs: float = _CHECKPOINT_SECS) -> None:
    """Return once the first worker has saved its checkpoint of these steps.

    Raises:
        NotDone: It has not in that time.
    """
    from barograph.capture.orders import NotDone
    from barograph.runs.control import STOP, read_answers
    from barograph.runs.layout import CHECKPOINTS

    deadline = time.monotonic() + timeout_secs
    while time.monotonic() < deadline:
        if any(item.name == f"{CHECKPOINTS}/{attempt:04d}-{steps:08d}-r0.json" for item in store.list(CHECKPOINTS)):
            return
        if any(done.action == STOP and done.worker == "r0" for done in read_answers(store, attempt=attempt).values()):
            raise NotDone("the first worker saved none")
        time.sleep(_CHECKPOINT_LOOK_SECS)
    raise NotDone(f"the first worker saved none within {timeout_secs:g} s")


def current() -> Recording | None:
    """Return the recording of this process; None if there is none."""
    return _current


def launched() -> Recording | None:
    """Return the recording that `barograph run` began in this process; None where it began none."""
    if not os.environ.get(LAUNCH_VARIABLE):
        return None
    begin_if_armed()
    return _current


def start(launch: Launch, *, only: bool = False, explicit_steps: bool = False) -> Recording:
    """Begin to record this process.

    Raises:
        AlreadyAttached: It is being recorded already.
    """
    global _current
    if _current is not None:
        raise AlreadyAttached(f"This process is being recorded already, to {_current.url}. Close that run first.")
    _current = Recording(launch, only=only, explicit_steps=explicit_steps)
    _end.watch()
    return _current


def start_from_launch(environment: Mapping[str, str], begin: float) -> None:
    """Begin to record as `barograph run` asked, counting what was spent since `begin` (`perf_counter`) as start-up."""
    launch = launch_from_environment(environment)
    if launch is None or _current is not None:
        return
    recording = start(launch)
    recording.session.add_startup(time.perf_counter() - begin)


class _End:
    """Hears of the end of this process, however it comes, while it is being recorded."""

    def __init__(self) -> None:
        self._replaced: Callable[..., Any] | None = None
        self._finalizer: Any = None
        self._forks_heard = False
        self._processes_heard = False

    def watch(self) -> None:
        """Hear of it from now on."""
        if not self._forks_heard:
            self._forks_heard = True
            os.register_at_fork(after_in_child=_after_fork)
        # atexit runs last in, first out: what the script registers later still runs while we record.
        atexit.register(_at_exit)
        if self._replaced is None:
            self._replaced, sys.excepthook = sys.excepthook, self._uncaught
        self._watch_multiprocessing()

    def forget(self) -> None:
        """Hear no more of it. Where somebody has put a hook on top of ours, ours stays, as a plain passage."""
        atexit.unregister(_at_exit)
        if self._finalizer is not None:
            self._finalizer.cancel()
            self._finalizer = None
        if sys.excepthook == self._uncaught:
            sys.excepthook, self._replaced = cast("Callable[..., Any]", self._replaced), None

    def _watch_multiprocessing(self) -> None:
        """Hear of the end of a process of multiprocessing: it ends without atexit, or once its failure is forgotten."""
        if "multiprocessing.util" not in sys.modules:
            return
        from multiprocessing import util

        self._finalize()
        if not self._processes_heard:
            self._processes_heard = True
            # A process that is forked forgets what was registered before.
            util.register_after_fork(self, _End._finalize)

    def _finalize(self) -> None:
        from multiprocessing.util import Finalize

        # Called while what the process's target raised is on its way.
        self._finalizer = Finalize(None, _close_raising, exitpriority=0)

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        if _current is not None and not _is_interactive():
            _current.failed(kind, error)
        if issubclass(kind, TrainingStopped) and not _is_interactive():
            _last_words(f"Barograph stopped this training: {error}")
            # What a hook raises ends the interpreter in place of the exception, in the ordinary way: whatever
            # the script has registered for its end still runs.
            raise SystemExit(EXIT_STOPPED)
        leave_out_our_frames(error)
        return (self._replaced or sys.__excepthook__)(kind, error, trace)


_end = _End()


def _last_words(text: str) -> None:
    """Write to standard error; where nobody reads it any more, let that not be what the process ends with."""
    try:
        if sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # Python flushes the stream once more when it ends, and would end with an error of its own.
        sys.stderr = cast("Any", None)


def _close_raising() -> None:
    if _current is not None:
        kind, error, _ = sys.exc_info()
        if kind is not None:
            _current.failed(kind, error)
        _current.close()


def _at_exit() -> None:
    if _current is not None:
        # Where the script has put a hook of its own in place of ours, this is what is left of an exception.
        error = getattr(sys, "last_value", None)
        if error is not None and not _is_interactive():
            _current.failed(type(error), error)
        _current.close()


def _is_interactive() -> bool:
    return hasattr(sys, "ps1")


def _after_fork() -> None:
    """A forked child is not the process that trains, unless training had not begun; the run stays its parent's."""
    global _current
    if _current is not None and (_current.session.declared or _current.is_resuming):
        _current.session.abandon()
        _current = None


def _rank() -> Rank:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdigit() and world.isdigit():
        return Rank(int(rank), int(world))
    return Rank()


def _versions() -> dict[str, str]:
    from barograph.version import __version__

    torch = sys.modules.get("torch")
    found = {"barograph": __version__, "python": sys.version.split()[0], "host": socket.gethostname()}
    if torch is not None:
        found["torch"] = str(torch.__version__)
    return found
