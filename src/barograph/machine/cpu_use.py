"""Processor time that this process and its children use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import psutil

from barograph.machine.host import cores_to_use

_LEAST_IDLE = 0.1
"""Share of the CPUs that has to be idle, so that nobody waits for a core."""


def process_cpu_secs(pid: int) -> float | None:
    """Return the processor time of a process; None if it has ended, or if the system does not tell."""
    try:
        times = psutil.Process(pid).cpu_times()
    except (psutil.Error, OSError):
        return None
    return float(times.user + times.system)


class CpuUse:
    """Measures how many cores this process and its children use from now on.

    Args:
        now: Seconds of a monotonic clock.
        used_secs: Processor time of this process and of its children that have ended.
        idle_secs: Idle time of all CPUs that this process may use together.
        cores: Number of these CPUs.
    """

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, used_secs: Callable[[], float] | None = None,
        idle_secs: Callable[[], float] | None = None, cores: int | None = None,
    ) -> None:
        self._now, self._used_secs, self._idle_secs = now, used_secs or _used_secs, idle_secs or _idle_secs
        self._cores = cores or cores_to_use() or 1
        self._begin = self._now(), self._used_secs(), self._idle_secs()

    def mean_cores(self) -> float | None:
        """Return the mean number of cores used so far.

        None if hardly one of the CPUs was idle: with more cores, they might have used more.
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
    # Those of other CPUs, of a shared node for example, are of no use to this process.
    each = psutil.cpu_times(percpu=True)
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(each))
    return float(sum(found.idle + getattr(found, "iowait", 0.0) for cpu, found in enumerate(each) if cpu in mine))
