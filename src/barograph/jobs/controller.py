"""The controller of a user's jobs on this machine: one process that manages them all, and ends when none is left.

    python -m barograph.jobs.controller HOME

It is started by each command that needs it, and ends on its own. If it is killed, the next command starts another one,
which goes on from the events in the stores: agents and scripts do not notice.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from barograph.errors import BarographError
from barograph.jobs.engines.engine import Engine
from barograph.jobs.engines.local import LocalEngine
from barograph.jobs.engines.ray import RayEngine
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.keeping import Keeping
from barograph.jobs.managed_job import ManagedJob
from barograph.machine.host_lock import HostLock
from barograph.model.clock import Clock, SystemClock
from barograph.processes.command import own_module
from barograph.processes.local_process import LocalProcess

_TURN_SECS = 0.05
_IDLE_TURN_SECS = 0.5
_RETRY_SECS = 5.0


class SteadyClock:
    """A clock whose wall time follows the monotonic one: a jump of the system's clock ends no job.

    Args:
        clock: The clock that may jump.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._offset = self._clock.unix() - self._clock.monotonic()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
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

    def turn(self) -> int:
        """Take a look at every job that is not over; return how many there are, and those whose instances are kept."""
        self._kept = self._keeping.turn()
        records = [record for record in self._home.all() if not record.over]
        names = {record.name for record in records}
        self._jobs = {name: job for name, job in self._jobs.items() if name in names}
        waiting: set[str] = set()
        # Those that run first, so that what they release is there for those that wait.
        for record in sorted(records, key=lambda item: (not self._is_running(item), item.number)):
            if self._clock.monotonic() < self._again_at.get(record.name, 0.0):
                continue
            try:
                job = self._jobs.get(record.name) or self._managed(record)
                if job.turn(may_start=record.engine not in waiting):
                    waiting.add(record.engine)
            except BarographError as error:
                self._again_at[record.name] = self._clock.monotonic() + _RETRY_SECS
                print(f"{record.name}: {error}", file=sys.stderr, flush=True)
        return len(records) + self._kept

    @property
    def is_busy(self) -> bool:
        """Whether an instance runs, or is kept for a job."""
        return bool(self._kept) or any(job.state.handles for job in self._jobs.values())

    def close(self) -> None:
        """Release the engines; instances go on."""
        for engine in self._engines.values():
            engine.close()

    def _is_running(self, record: JobRecord) -> bool:
        job = self._jobs.get(record.name)
        return job is not None and bool(job.state.handles)

    def _managed(self, record: JobRecord) -> ManagedJob:
        job = self._jobs[record.name] = ManagedJob(record, self._home, self._engine(record.engine), self._clock,
                                                   self._keeping)
        return job

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            self._engines[name] = self._made[name]()
        return self._engines[name]


def ensure_controller(home: JobsHome) -> bool:
    """Start a controller unless one runs; return whether one was started.

    Raises:
        OSError: It cannot be started.
    """
    lock = _lock(home)
    if not lock.take():
        return False
    lock.release()
    with home.controller_log.open("ab") as log:
        LocalProcess(own_module("barograph.jobs.controller", str(home.path)), stdout=log, stderr=log).let_go()
    return True


def main(path: str) -> int:
    """Manage the jobs of a directory until none is left."""
    home = JobsHome(path)
    lock = _lock(home)
    while lock.take():
        controller = Controller(home, engines(home), SteadyClock())
        while controller.turn():
            time.sleep(_TURN_SECS if controller.is_busy else _IDLE_TURN_SECS)
        controller.close()
        lock.release()
        if not any(not record.over for record in home.all()):
            break  # a job that was added while the lock was held is not left without a controller
    return 0


def engines(home: JobsHome) -> dict[str, Callable[[], Engine]]:
    """Return the engines by name."""
    return {"local": lambda: LocalEngine(home), "ray": lambda: RayEngine(home)}


def _lock(home: JobsHome) -> HostLock:
    home.path.mkdir(parents=True, exist_ok=True)
    return HostLock("jobs", home.path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
