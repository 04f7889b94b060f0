"""What one training process uses, its children included."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import thread_time
from typing import Any

import psutil

CHILDREN_APART_SECS = 5.0
"""Looking for children means looking at every process there is, so they are looked for only so often."""
_SHARE = 0.003
"""Of one core: what that may take. Where it takes longer, it is done more rarely."""

_LOADER_NAME = "pt_data_worker"
"""What torch calls the processes of a DataLoader."""
_OURS = "barograph"


class Family:
    """The training process and all that it started, but for Barograph's own.

    Args:
        pid: Of the training process.
        system: psutil, or what stands in for it.
        cpu_time: Tells the seconds of computing that this thread has taken.
    """

    def __init__(self, pid: int, system: Any = psutil, *, cpu_time: Callable[[], float] = thread_time) -> None:
        self._system = system
        self._cpu_time = cpu_time
        self._trainer = system.Process(pid)
        self._children: list[Any] = []
        self._loaders = 0
        self._cores = self._count_cores()
        self._children_due = float("-inf")
        self._cpu_secs: dict[int, float] = {}
        self._last: float | None = None

    def read(self, now: float) -> dict[str, float]:
        """Return name to figure, the names as in `Kind.MACHINE`; nothing once the process is gone.

        Args:
            now: Seconds of one monotonic clock.
        """
        if now >= self._children_due:
            self._look_for_children(now)
        memory = 0.0
        cpu_secs: dict[int, float] = {}
        for process in (self._trainer, *self._children):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    memory += process.memory_info().rss
            except self._system.Error:
                continue
            cpu_secs[process.pid] = times.user + times.system
        if self._trainer.pid not in cpu_secs:
            return {}
        figures = {"process_memory": memory, "loader_processes": float(self._loaders), "cores": float(self._cores)}
        return {**figures, **self._cpu(cpu_secs, now)}

    def _cpu(self, cpu_secs: dict[int, float], now: float) -> dict[str, float]:
        before, self._cpu_secs = self._cpu_secs, cpu_secs
        secs, self._last = (None if self._last is None else now - self._last), now
        if not secs:
            return {}
        # A child that was not known before brings all that it had computed by then: it counts from now on.
        used = sum(value - before[pid] for pid, value in cpu_secs.items() if pid in before)
        return {"process_cpu": round(100 * used / secs, 1)}

    def _look_for_children(self, now: float) -> None:
        begin = self._cpu_time()
        try:
            children = self._trainer.children(recursive=True)
        except self._system.Error:
            children = []
        own = os.getpid()
        known = {process.pid: process for process in self._children}
        kept, loaders = [], 0
        for child in children:
            name, is_ours = self._look_at(child)
            if is_ours or child.pid == own:
                continue
            kept.append(known.get(child.pid, child))
            loaders += name.startswith(_LOADER_NAME)
        self._children, self._loaders = kept, loaders
        self._children_due = now + max(CHILDREN_APART_SECS, (self._cpu_time() - begin) / _SHARE)

    def _count_cores(self) -> int:
        """Return how many cores the process may run on."""
        try:
            return len(self._trainer.cpu_affinity())
        except (self._system.Error, AttributeError):  # not every system knows of that
            return self._system.cpu_count() or 1

    def _look_at(self, process: Any) -> tuple[str, bool]:
        """Return a process's name, and whether it is Barograph's: one that writes a run, or watches one."""
        try:
            words = process.cmdline()
            return process.name(), "-m" in words and words[words.index("-m") + 1].partition(".")[0] == _OURS
        except (self._system.Error, IndexError):
            return "", False
