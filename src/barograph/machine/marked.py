"""Processes that carry a mark in their environment, wherever they have gone: into other groups, sessions or parents."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from barograph.processes.orphans import descendants

_PATIENCE_SECS = 20.0
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.002, 0.05
_STARTING_SECS = 1.0
"""Longest time that processes which are being started are waited for, in one look at all processes."""

_VSIZE, _ENV_END = 23 - 3, 51 - 3
"""Places in `stat` behind the name of the program, which is the second field."""


def marked_processes(variable: str, prefix: str) -> list[int]:
    """Return the processes of this user whose environment variable begins with `prefix`, without this one.

    Args:
        variable: Name of the environment variable.
        prefix: Beginning of its value.
    """
    sign = f"\0{variable}={prefix}".encode("utf-8", "surrogateescape")
    me = os.getpid()
    return [pid for pid, environment in _environments() if pid != me and sign in b"\0" + environment]


class Program(NamedTuple):
    """What a process runs."""

    arguments: list[str]
    environment: dict[str, str]


def program_of(pid: int) -> Program | None:
    """Return what a process runs; None if it has ended or is another user's."""
    import psutil  # takes 40 ms to load

    try:
        process = psutil.Process(pid)
        return Program(process.cmdline(), process.environ())
    except (psutil.Error, OSError):
        return None


def unmarked_below(pid: int, variable: str) -> list[int]:
    """Return the descendants of a process that do not have an environment variable: they have cleared it."""
    sign = f"\0{variable}=".encode("utf-8", "surrogateescape")
    found = []
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            if sign not in b"\0" + Path("/proc", str(child), "environ").read_bytes():
                found.append(child)
    return found


def kill_marked(variable: str, prefix: str) -> int:
    """Kill the processes that `marked_processes` returns until none is left; return how many were killed."""
    return _kill_all(lambda: marked_processes(variable, prefix))


def kill_unmarked_below(pid: int, variable: str) -> int:
    """Kill the processes that `unmarked_below` returns until none is left; return how many were killed."""
    return _kill_all(lambda: unmarked_below(pid, variable))


def _kill_all(find: Callable[[], list[int]]) -> int:
    killed: set[int] = set()
    deadline, pause = time.monotonic() + _PATIENCE_SECS, _FIRST_PAUSE_SECS
    # Again and again: a process may have started another one meanwhile.
    while (found := find()) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
                killed.add(pid)
        time.sleep(pause)  # its environment goes with its memory
        pause = min(_LONGEST_PAUSE_SECS, 2 * pause)
    return len(killed)


def _environments() -> Iterator[tuple[int, bytes]]:
    """Yield the processes whose environment can be read. A zombie has none."""
    if sys.platform != "linux":
        yield from _environments_elsewhere()
        return
    # Not through psutil, which takes 40 ms to be loaded, and twice as long.
    deadline = time.monotonic() + _STARTING_SECS
    for name in os.listdir("/proc"):
        if name.isdecimal():
            place = Path("/proc", name)
            with contextlib.suppress(OSError):
                while not (environment := (place / "environ").read_bytes()) and _is_starting(place):
                    if time.monotonic() > deadline:
                        break
                    time.sleep(_FIRST_PAUSE_SECS)
                yield int(name), environment


def _is_starting(place: Path) -> bool:
    """Return whether a process has memory but no environment yet, which the kernel sets last of what a program gets.

    Args:
        place: Directory of the process; its `stat` is described in proc_pid_stat(5).
    """
    fields = (place / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    memory, end_of_environment = int(fields[_VSIZE]), int(fields[_ENV_END])
    return memory > 0 and end_of_environment == 0  # kernel threads and zombies have no memory


def _environments_elsewhere() -> Iterator[tuple[int, bytes]]:
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            yield process.pid, b"\0".join(f"{name}={value}".encode("utf-8", "surrogateescape")
                                          for name, value in process.environ().items())
