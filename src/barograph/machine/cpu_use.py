"""Processor time that this process and its children use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import psutil

_LEAST_IDLE = 0.1
"""Share of the machine that has to be idle, so that nobody waits for a core."""


class CpuUse:
    """Measures how many cores this process and its children use from now on.

    Args:
        now: Seconds of a monotonic clock.
        used_secs: Processor time of this process and of its children that have ended.
        idle_secs: Idle time of all cores of the machine together.
        cores: Number of cores of the machine.
    """

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, used_secs: Callable[[], float] | None = None,
        idle_secs: Callable[[], float] | None = None, cores: int | None = None,
    ) -> None:
        self._now, self._used_secs, self._idle_secs = now, used_secs or _used_secs, idle_secs or _idle_secs
        self._cores = cores or psutil.cpu_count() or 1
        self._begin = self._now(), self._used_secs(), self._idle_secs()

    def mean_cores(self) -> float | None:
        """Return the mean number of cores used so far.

        None if the machine had hardly an idle core: with more cores, they might have used more.
        """
        begin, used, idle = self._begin
        secs = self._now() - begin
        if secs <= 0 or (self._idle_secs() - idle) / (secs * self._cores) < _LEAST_IDLE:
            return None
        return (self._used_secs() - used) / secs


def _used_secs() -> float:
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


def _idle_secs() -> float:
    found = psutil.cpu_times()
    return float(found.idle + getattr(found, "iowait", 0.0))
