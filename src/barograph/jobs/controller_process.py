"""Starts the controller of a user's jobs; also before a job is there, so that it loads while the job is prepared."""

from __future__ import annotations

import contextlib
import os
import select
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from barograph.jobs.handover import is_noted, is_older_running, note_ended
from barograph.jobs.home import JobsHome
from barograph.machine.host_lock import HostLock
from barograph.processes.command import own_module
from barograph.processes.local_process import DEVNULL, PIPE, LocalProcess

ANNOUNCED = "--announced"
"""Argument of the controller: its standard input is open until the job that it was started for is there.

The argument after it is the engine of that job.
"""
SUCCEEDS = "--succeeds"
"""Argument of the controller: it takes over from one of an older version."""


@dataclass(frozen=True, slots=True)
class _Announced:
    process: LocalProcess
    lock: HostLock


ENSURE_SECS = 5.0
"""How often a command that waits for a job looks whether its controller is there."""

_announced: dict[Path, _Announced] = {}


def controller_lock(home: JobsHome) -> HostLock:
    """Return the lock that the controller holds."""
    home.path.mkdir(parents=True, exist_ok=True)
    return HostLock("jobs", home.path)


def successor_lock(home: JobsHome) -> HostLock:
    """Return the lock that a controller holds while it waits for one of an older version to end."""
    return HostLock("successor", home.path)


def announce(home: JobsHome, engine: str = "") -> None:
    """Start a controller for a job that this process prepares, unless one runs or another process has announced one.

    It ends if no job comes before `dismiss`, or the end of this process. What fails here fails again, with a reason, in
    `ensure_controller`.

    Args:
        home: Directory of the jobs.
        engine: Engine of the job, which it prepares; "": none.
    """
    if home.path in _announced or os.name == "nt":  # there a pipe cannot be waited for
        return
    with contextlib.suppress(OSError):
        # One process of many that submit at once is enough.
        ours = HostLock("announced", home.path)
        running = controller_lock(home)
        if not running.take():
            return
        running.release()
        if ours.take():
            _announced[home.path] = _Announced(_started(home, ANNOUNCED, engine), ours)


def dismiss(home: JobsHome) -> bool:
    """Let the announced controller look for jobs; return whether there is one."""
    announced = _announced.pop(home.path, None)
    if announced is None:
        return False
    announced.process.feed(b"")
    announced.lock.release()
    is_there = announced.process.poll() is None
    announced.process.let_go()
    return is_there


def ensure_controller(home: JobsHome) -> bool:
    """Start a controller unless one runs or there is nothing to do; return whether one was started.

    If the one that runs has an older version, one is started that takes over.

    Raises:
        OSError: It cannot be started.
    """
    if dismiss(home):
        return True
    if all(record.over for record in home.all()) and not _has_more(home):
        _forget_killed(home)
        return False
    is_running = not _is_free(controller_lock(home))
    if is_running and not (is_older_running(home) and _is_free(successor_lock(home))):
        return False
    _started(home, *([SUCCEEDS] if is_running else [])).let_go()
    return True


class Announcement:
    """The job that a controller was started for, seen by the controller.

    Args:
        is_expected: It was started with `ANNOUNCED`.
    """

    def __init__(self, is_expected: bool) -> None:
        self._is_expected = is_expected

    def is_expected(self, wait_secs: float = 0.0) -> bool:
        """Return whether the job is still prepared; wait so long for it to be there."""
        if self._is_expected and select.select([0], [], [], wait_secs)[0]:
            self._is_expected = False
        return self._is_expected


def _is_free(lock: HostLock) -> bool:
    is_free = lock.take()
    lock.release()
    return is_free


def _forget_killed(home: JobsHome) -> None:
    """Remove the note of a controller that was killed before it had a job."""
    if is_noted(home):
        lock = controller_lock(home)
        if lock.take():
            note_ended(home)
            lock.release()


def _has_more(home: JobsHome) -> bool:
    """Return whether instances are kept, or a killed process left something."""
    # Loaded here, because a command that has submitted a job does not need it.
    from barograph.jobs.keeping import kept_notes
    from barograph.jobs.leftovers import has_leftovers

    return bool(kept_notes(home)) or has_leftovers(home)


def _started(home: JobsHome, *words: str) -> LocalProcess:
    with contextlib.ExitStack() as stack:
        log: IO[bytes] | int = DEVNULL
        with contextlib.suppress(OSError):  # a full disk
            log = stack.enter_context(home.controller_log.open("ab"))
        return LocalProcess(own_module("barograph.jobs.controller", str(home.path), *words),
                            stdin=PIPE if ANNOUNCED in words else DEVNULL, stdout=log, stderr=log)
