"""The controller of a user's jobs on this machine: one process that manages them all, and ends when none is left.

    python -m barograph.jobs.controller HOME [--announced ENGINE | --succeeds]

Each command that needs it starts it. If it is killed, the next command starts another one, which continues from the
events in the stores; agents and scripts do not notice.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
import traceback
from collections.abc import Callable, Mapping

from barograph.errors import BarographError, DamagedChunk, StoreError
from barograph.jobs.controller_process import (
    ANNOUNCED,
    SUCCEEDS,
    Announcement,
    controller_lock,
    successor_lock,
)
from barograph.jobs.engines.engine import Engine, NotYet
from barograph.jobs.engines.engines import engines
from barograph.jobs.handover import ask_for_handover, is_asked, note_ended, note_running
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.keeping import Keeping
from barograph.jobs.leftovers import remove_leftovers
from barograph.jobs.managed_job import PROBLEM, ManagedJob
from barograph.jobs.state import state_after
from barograph.machine.host_lock import HostLock
from barograph.model.clock import Clock, SystemClock
from barograph.provenance.secrets import Secrets
from barograph.store.urls import store_from_url

_TURN_SECS = 0.05
_IDLE_TURN_SECS = 0.5
_RETRY_SECS = 5.0
_LEFTOVERS_SECS = 2.0
_SOON_SECS = 0.1
_HANDOVER_SECS = 60.0
_FRESH_SECS = 10.0
"""How long a job that begins to wait is looked at as often as one that runs: instances may be free."""


class SteadyClock:
    """A clock whose wall time follows the monotonic one: a jump of the system's clock ends no job.

    Args:
        clock: The underlying clock.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._offset = self._clock.unix() - self._clock.monotonic()

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self._clock.monotonic()

    def unix(self) -> float:
        """Return seconds since 1970 UTC, as they were when this clock was made and have passed since."""
        return self._offset + self._clock.monotonic()


class Controller:
    """Manages the jobs of a directory.

    Args:
        home: The directory.
        engines: Name to engine.
        clock: The time.
    """

    def __init__(self, home: JobsHome, engines: Mapping[str, Callable[[], Engine]], clock: Clock) -> None:
        self._home, self._made, self._clock = home, engines, clock
        self._engines: dict[str, Engine] = {}
        self._jobs: dict[str, ManagedJob] = {}
        self._again_at: dict[str, float] = {}
        self._keeping = Keeping(home, self._engine, clock)
        self._kept = 0
        self._leftovers_at = 0.0
        self._has_decided = False

    def turn(self) -> int:
        """Process every job that has not ended, kept instances, and what killed processes left.

        Returns:
            How many jobs are not over, and how many have kept their instances.
        """
        self._has_decided = False
        self._care("leftovers of killed processes", self._remove_leftovers)
        self._care("kept instances", self._release_kept)
        everything = self._home.all()
        # A job with a damaged record may not be over.
        gone = {name for name in self._jobs.keys() - {record.name for record in everything} if not self._home.has(name)}
        for name in gone:
            self._care(name, functools.partial(self._abandon, name))
        records = [record for record in everything if not record.over]
        names = {record.name for record in records} | gone
        self._jobs = {name: job for name, job in self._jobs.items() if name in names}
        for record in records:
            # All of them before any turn: one that waits must not take what the instances of another one use.
            if record.name not in self._jobs:
                self._care(record.name, functools.partial(self._manage, record), record)
        waiting: set[str] = set()
        # Those that run first, so that what they release is there for those that wait.
        for record in sorted(records, key=lambda item: (not self._is_running(item), item.number)):
            if record.name in self._jobs:
                self._care(record.name, functools.partial(self._turn_of, record, waiting), record)
        return len(records) + self._kept

    def _care(self, name: str, do: Callable[[], None], record: JobRecord | None = None) -> None:
        """Do something for a job, or again in a while if that fails: one job must not hold up the others."""
        if self._clock.monotonic() < self._again_at.get(name, 0.0):
            return
        try:
            do()
        except NotYet:
            self._again_at[name] = self._clock.monotonic() + _SOON_SECS
        except BarographError as error:
            self._again_at[name] = self._clock.monotonic() + _RETRY_SECS
            _log(f"{name}: {error}")
            if record is not None and not isinstance(error, StoreError):
                self._note_problem(record, str(error))
        except Exception as error:  # noqa: BLE001 - it is logged
            self._again_at[name] = self._clock.monotonic() + _RETRY_SECS
            _log(f"{name}: {traceback.format_exc()}")
            if record is not None:
                self._note_problem(record, f"{type(error).__name__}: {error}. Details: {self._home.controller_log}.")

    def _note_problem(self, record: JobRecord, problem: str) -> None:
        """Note in a job why it is not managed for now, if its store can be written."""
        with contextlib.suppress(Exception):  # it is logged; the events may be what cannot be understood
            reason = f"{PROBLEM}{Secrets(self._home.environment(record.name)).hide(problem)}"
            log = EventLog(store_from_url(record.url), EVENTS, clock=self._clock.unix)
            if reason != state_after(log.new()).reason:
                log.append("waiting", reason=reason)

    def _remove_leftovers(self) -> None:
        if self._clock.monotonic() >= self._leftovers_at:
            self._leftovers_at = self._clock.monotonic() + _LEFTOVERS_SECS
            remove_leftovers(self._home)

    def _release_kept(self) -> None:
        self._kept = self._keeping.turn()

    def _turn_of(self, record: JobRecord, waiting: set[str]) -> None:
        """Let a job have its turn; note in `waiting` that its queue has no instances for it."""
        job = self._jobs[record.name]
        if job.turn(may_start=job.queue not in waiting):
            waiting.add(job.queue)
        # Not of a job whose turn failed: it would be looked at again and again until it is tried again.
        self._has_decided |= job.has_decided

    @property
    def is_busy(self) -> bool:
        """Whether an instance runs, is kept for a job, or a job has just begun to wait for some."""
        now = self._clock.unix()
        return bool(self._kept) or any(
            job.state.handles or now - job.state.since_unix < _FRESH_SECS for job in self._jobs.values())

    @property
    def has_decided(self) -> bool:
        """Whether the last turn changed a job; what follows from it is due at once."""
        return self._has_decided

    def prepare(self, engine: str) -> None:
        """Prepare an engine, if there is one of this name, for a job that is being submitted from this environment."""
        if engine in self._made:
            self._engine(engine).prepare()

    def close(self) -> None:
        """Remove what killed processes left, and release the engines; instances continue."""
        self._leftovers_at = 0.0  # a command that asks for a controller now does not start another one
        self._care("leftovers of killed processes", self._remove_leftovers)
        for engine in self._engines.values():
            engine.close()

    def _is_running(self, record: JobRecord) -> bool:
        job = self._jobs.get(record.name)
        return job is not None and bool(job.state.handles)

    def _abandon(self, name: str) -> None:
        self._jobs[name].abandon()
        del self._jobs[name]

    def _manage(self, record: JobRecord) -> None:
        engine = self._engine(record.engine)
        try:
            self._jobs[record.name] = ManagedJob(record, self._home, engine, self._clock, self._keeping)
        except DamagedChunk as error:
            # Nobody can manage it any more. Its store still shows what is wrong.
            _log(f"{record.name}: {error} It was ended.")
            engine.release(record.name)
            self._home.close(record)

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            self._engines[name] = self._made[name]()
        return self._engines[name]


def main(path: str, *words: str) -> int:
    """Manage the jobs of a directory until none is left, and none is announced, or a newer version takes over."""
    home = JobsHome(path)
    lock, job = controller_lock(home), Announcement(ANNOUNCED in words)
    engine = words[-1] if ANNOUNCED in words else ""
    if SUCCEEDS in words and not _take_over(home, lock):
        return 0
    while True:
        is_expected = job.is_expected()
        if lock.take():
            note_running(home)
            _manage(home, job, engine)
            note_ended(home)
            lock.release()
            if is_asked(home):
                return 0
            if all(record.over for record in home.all()):
                return 0  # a job that was added while the lock was held is not left without a controller
        elif not is_expected:
            return 0  # the other controller sees the job
        else:
            job.is_expected(_IDLE_TURN_SECS)


def _take_over(home: JobsHome, lock: HostLock) -> bool:
    """Take the lock from a controller of an older version, unless another process does; return whether it is taken."""
    ours = successor_lock(home)
    if not ours.take():
        return False
    ask_for_handover(home)
    deadline = time.monotonic() + _HANDOVER_SECS
    while not lock.take() and time.monotonic() < deadline:
        time.sleep(_IDLE_TURN_SECS / 10)
    is_taken = lock.take()
    ours.release()
    return is_taken


def _log(text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk; the jobs go on
        print(text.rstrip(), file=sys.stderr, flush=True)


def _manage(home: JobsHome, job: Announcement, engine: str) -> None:
    controller = Controller(home, engines(home), SteadyClock())
    controller.prepare(engine)
    while True:
        is_expected = job.is_expected()  # first: a job that was announced is seen by the turn below
        if (not controller.turn() and not is_expected) or is_asked(home):
            break
        pause = 0.0 if controller.has_decided else _TURN_SECS if controller.is_busy else _IDLE_TURN_SECS
        if is_expected:
            job.is_expected(pause)
        else:
            time.sleep(pause)
    controller.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
