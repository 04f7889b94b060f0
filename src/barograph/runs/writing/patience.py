"""Waiting for a thread as long as it, or the process that it waits for, uses CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

_LOOK_SECS = 0.5
_WORKING_SHARE = 0.01
"""Share of CPU time above which a thread counts as working, even on a machine with a hundred other busy
threads."""
_MOST_TIMES = 30


def wait_while_working(
    thread: Thread, secs: float, *, clock: Callable[[], float] = time.monotonic,
    cpu_secs: Callable[[Thread], float | None] | None = None,
) -> bool:
    """Wait for a thread to end, unless it is idle for `secs`. Returns False if it has not ended.

    A store that does not respond uses no CPU time. On a busy machine everything is late, and waiting loses nothing.

    Args:
        thread: The thread.
        secs: How long it may be idle; the total timeout is thirty times as long. If the system does not provide CPU
            times of threads, `secs` is the total timeout.
        clock: The time, for tests.
        cpu_secs: CPU time of what the thread waits for; None: of the thread.
    """
    worked = cpu_secs or thread_cpu_secs
    began = at_work = clock()
    # Another process is asked only if it is slow to end.
    seen = worked(thread) if cpu_secs is None else None
    while True:
        thread.join(min(_LOOK_SECS, secs))
        if not thread.is_alive():
            return True
        now, done = clock(), worked(thread)
        if seen is None or done is None or done < seen:  # unknown before, or a new process
            seen = done
        elif done - seen >= (now - at_work) * _WORKING_SHARE and done > seen:
            seen, at_work = done, now
        if now - at_work >= secs or now - began >= secs * _MOST_TIMES:
            return False


def thread_cpu_secs(thread: Thread) -> float | None:
    """Return the CPU time of a thread; None if the system does not provide it, or the thread has ended."""
    if thread.ident is None or not hasattr(time, "pthread_getcpuclockid"):
        return None
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    except OSError:
        return None
