"""The memory of a process and of everything that it started."""

from __future__ import annotations

import contextlib
import os

import psutil


def processes_below(pid: int) -> list[psutil.Process]:
    """Return a process, its descendants, and those of its session if it leads one. Zombies do not count."""
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.Error):
        first = psutil.Process(pid)
        found = {process.pid: process for process in (first, *first.children(recursive=True))}
    for other in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if other not in found and os.getsid(other) == pid:
                found[other] = psutil.Process(other)
    return [process for process in found.values() if _lives(process)]


def memory_of(processes: list[psutil.Process], *, above_bytes: int = 0) -> int:
    """Return the bytes of memory that processes use together. Pages that they share count once.

    Args:
        processes: Processes of this machine.
        above_bytes: Up to this size an upper bound will do, which is far cheaper.
    """
    resident = sum(_figure(process, exact=False) for process in processes)
    return resident if resident <= above_bytes else sum(_figure(process, exact=True) for process in processes)


def kill_all(processes: list[psutil.Process]) -> None:
    """Kill processes. One that has ended is no error, nor is another that has its number now."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _figure(process: psutil.Process, *, exact: bool) -> int:
    try:
        return int(process.memory_full_info().pss if exact else process.memory_info().rss)
    except AttributeError:  # no PSS on this system
        return int(process.memory_info().rss)
    except psutil.Error:  # it has ended, or is somebody else's
        return 0


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
