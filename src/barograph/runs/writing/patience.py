"""Waiting for a thread that works, and not for one that stands."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

_LOOK_SECS = 0.5
_WORKING_SHARE = 0.01
"""Of the time that passes, what a thread must have of a processor to be taken to work: on a machine on which a hundred
others want one, too."""
_MOST_TIMES = 30


def wait_while_working(
    thread: Thread, secs: float, *, clock: Callable[[], float] = time.monotonic,
    cpu_secs: Callable[[Thread], float | None] | None = None,
) -> bool:
    """Wait for a thread to end, and give it up when it has stood still for so long; False when it was given up.

    A store that does not answer takes no time of a processor. A machine that is busy with other things makes everything
    late, and nothing is lost by waiting for it.

    Args:
        thread: Which.
        secs: How long it may stand still; thirty times as long it is waited for in all. Where the system does not tell
            how long a thread has worked, `secs` is all.
        clock, cpu_secs: For tests: the time, and how long a thread has worked.
    """
    worked = cpu_secs or thread_cpu_secs
    began = at_work = clock()
    seen = worked(thread) or 0.0
    while True:
        thread.join(min(_LOOK_SECS, secs))
        if not thread.is_alive():
            return True
        now, done = clock(), worked(thread)
        if done is not None and done - seen >= (now - at_work) * _WORKING_SHARE and done > seen:
            seen, at_work = done, now
        if now - at_work >= secs or now - began >= secs * _MOST_TIMES:
            return False


def thread_cpu_secs(thread: Thread) -> float | None:
    """Return how long a thread has had a processor; None where the system does not tell, or it has ended."""
    if thread.ident is None or not hasattr(time, "pthread_getcpuclockid"):
        return None
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    except OSError:
        return None
