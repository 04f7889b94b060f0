"""Which process it is, so that another one on the same machine can tell whether it still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from barograph.model.manifest import Worker

_STARTED_FIELD = 21
_STATE_FIELD = 2


@dataclass(frozen=True, slots=True)
class Process:
    """One process in one life of one machine.

    Attributes:
        pid: Its number.
        host: Name of the machine.
        boot_id: Tells one life of the machine from the next, and one container's numbers from another's;
            "" where it is not known.
        started_ticks: When it began, in ticks since the machine did; 0 where it is not known. Tells it from
            a later process with the same number, whatever the wall clock does.
    """

    pid: int
    host: str
    boot_id: str
    started_ticks: int


def this_process() -> Process:
    """Return the process that asks."""
    return _process(os.getpid())


def parent_process() -> Process:
    """Return the process that started the one that asks."""
    return _process(os.getppid())


def is_alive(process: Process) -> bool | None:
    """Return whether the process lives; None where that cannot be known from here.

    A process that has ended and was not yet collected by its parent is not alive.
    """
    if not process.boot_id or (process.host, process.boot_id) != (socket.gethostname(), _boot_id()):
        return None
    if process.pid <= 0:
        return False  # to a number that is no process's, a signal goes to several
    try:
        os.kill(process.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it lives, and is another user's
    status = _status(process.pid)
    if status is None:
        return True
    state, started_ticks = status
    return state not in ("Z", "X") and process.started_ticks in (0, started_ticks)


def process_of(worker: Worker) -> Process:
    """Return the process that declared itself as that worker."""
    return Process(worker.pid, worker.host, worker.boot_id, worker.started_ticks)


def _process(pid: int) -> Process:
    status = _status(pid)
    return Process(pid, socket.gethostname(), _boot_id(), status[1] if status else 0)


def _boot_id() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # Containers of one machine share its boot but not its process numbers.
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _status(pid: int) -> tuple[str, int] | None:
    """Return state and start of a process on Linux; None elsewhere, and where it has just gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may hold anything.
    rest = text.rpartition(")")[2].split()
    return rest[_STATE_FIELD - 2], int(rest[_STARTED_FIELD - 2])
