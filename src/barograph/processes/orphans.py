"""Processes whose parent has ended become children of this one, so that none escapes it. On Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

from barograph.processes.local_process import is_started_here

_SET_CHILD_SUBREAPER = 36
"""Of `prctl`; see its manual page. Processes that are started later inherit nothing of it."""


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends, where the system allows it.

    Call `reap_orphans` from time to time, in the thread that starts processes.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans() -> int:
    """Remove adopted processes that have ended from the table of processes; return how many there were."""
    reaped = 0
    for pid, (parent, state) in parents().items():
        if parent == os.getpid() and state == "Z" and not is_started_here(pid):
            with contextlib.suppress(OSError):
                reaped += os.waitpid(pid, os.WNOHANG)[0] == pid
    return reaped


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have started, without zombies."""
    known = parents()
    below, found = {pid}, []
    while new := {child for child, (parent, _) in known.items() if parent in below} - below:
        below |= new
        found += [child for child in new if known[child][1] != "Z"]
    return sorted(found)


def parents() -> dict[int, tuple[int, str]]:
    """Return the parent and the state of every process; nothing where the system does not tell it in /proc."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            # The name in parentheses may hold spaces and parentheses.
            state, parent = (path / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            found[int(path.name)] = int(parent), state.decode()
    return found
