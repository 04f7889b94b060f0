"""Limits the memory of a process tree where the system has no control groups: measures it, and kills it at the limit.

    python -c "from barograph.jobs.memory_watch import main; main(PID, LIMIT_BYTES, MARK)"

It ends with the processes that it watches. A process that fills memory within a fraction of a second may exceed the
limit before it is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from barograph.machine.tree_memory import kill_all, memory_of, processes_below

_LOOK_SECS = 0.2


def main(pid: int, limit_bytes: int, mark: str, *, pause: Callable[[float], None] = time.sleep) -> None:
    """Watch a process and everything that it started until all have ended.

    Args:
        pid: The process.
        limit_bytes: Memory that they may use together.
        mark: File that is written if they used more.
        pause: Waits for some seconds.
    """
    while processes := processes_below(pid):
        if memory_of(processes, above_bytes=limit_bytes) > limit_bytes:
            Path(mark).touch()
            kill_all(processes)
        pause(_LOOK_SECS)
