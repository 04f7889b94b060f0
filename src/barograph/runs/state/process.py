"""Identity of a process, so that another one on the same machine can check whether it is alive."""

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
    """One process in one boot of one machine.

    Attributes:
        pid: Process ID.
        host: Name of the machine.
        boot_id: ID of the boot and the PID namespace; "" if
            unknown.
        started_ticks: Start time in ticks since boot; 0 if unknown. Distinguishes it from a later process
            with the same number, independent of the wall clock.
    """

    pid: int
    host: str
    boot_id: str
    started_ticks: int


def this_process() -> Process:
    """Return the calling process."""
    return process_now(os.getpid())


def parent_process() -> Process:
    """Return the parent of the calling process."""
    return process_now(os.getppid())


def is_alive(process: Process) -> bool | None:
    """Return whether the process is alive; None if that cannot be determined from here.

    A zombie is not alive.
    """
    if not process.boot_id or (process.host, process.boot_id) != (socket.gethostname(), _boot_id()):
        return None
    if process.pid <= 0:
        return False  # a signal to such a number goes to several processes
    try:
        os.kill(process.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it is alive, and belongs to another user
    status = _status(process.pid)
    if status is None:
        return True
    state, started_ticks = status
    return state not in ("Z", "X") and process.started_ticks in (0, started_ticks)


def may_run(pid: int) -> bool:
    """Return whether a process with that number may be running on this machine."""
    return is_alive(process_now(pid)) is not False


def process_of(worker: Worker) -> Process:
    """Return the process of a worker."""
    return Process(worker.pid, worker.host, worker.boot_id, worker.started_ticks)


def process_now(pid: int) -> Process:
    """Return the process that has a number now."""
    status = _status(pid)
    return Process(pid, socket.gethostname(), _boot_id(), status[1] if status else 0)


def _boot_id() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # Containers of one machine share its boot ID but not its process numbers.
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _status(pid: int) -> tuple[str, int] | None:
    """Return state and start of a process on Linux; None elsewhere, or if it has just ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may contain anything.
    rest = text.rpartition(")")[2].split()
    return rest[_STATE_FIELD - 2], int(rest[_STARTED_FIELD - 2])
