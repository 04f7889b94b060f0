"""Processes that carry a mark in their environment, wherever they have gone: into other groups, sessions or parents."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import psutil


def marked_processes(variable: str, prefix: str) -> list[int]:
    """Return the processes of this user whose environment variable begins with `prefix`, without this one.

    Args:
        variable: Name of the environment variable.
        prefix: Beginning of its value.
    """
    me, found = psutil.Process().pid, []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != me and process.environ().get(variable, "").startswith(prefix):
                found.append(process.pid)
    return found


class Program(NamedTuple):
    """What a process runs."""

    arguments: list[str]
    environment: dict[str, str]


def program_of(pid: int) -> Program | None:
    """Return what a process runs; None if it has ended or is another user's."""
    try:
        process = psutil.Process(pid)
        return Program(process.cmdline(), process.environ())
    except (psutil.Error, OSError):
        return None


def kill_marked(variable: str, prefix: str) -> int:
    """Kill the processes that `marked_processes` returns until none is left; return how many were killed."""
    killed = 0
    for _ in range(10):  # a process may have started another one meanwhile
        found = marked_processes(variable, prefix)
        if not found:
            break
        processes = []
        for pid in found:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                process.kill()
                processes.append(process)
                killed += 1
        psutil.wait_procs(processes, timeout=2)
    return killed
