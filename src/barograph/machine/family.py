"""Resource use of a training process and its children."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import thread_time
from typing import Any

import psutil

CHILDREN_APART_SECS = 5.0
"""Interval between searches for children, which read all processes of the machine."""
_SHARE = 0.003
"""Share of one core for searching children. If it takes longer, it is done less often."""

_LOADER_NAME = "pt_data_worker"
"""Name of PyTorch's DataLoader processes."""
_OURS = "barograph"


class Family:
    """The training process and its descendants, without processes of Barograph.

    Args:
        pid: Process ID of the training process.
        system: psutil, or a replacement in tests.
        cpu_time: Returns the CPU seconds of this thread.
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
        """Return metrics by name, as in `Kind.MACHINE`; empty once the process is gone.

        Args:
            now: Seconds of a monotonic clock.
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
        # The CPU time of a new child before now does not count.
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
        except (self._system.Error, AttributeError):  # not available on every system
            return self._system.cpu_count() or 1

    def _look_at(self, process: Any) -> tuple[str, bool]:
        """Return the name of a process, and whether it is a writer or watcher of Barograph."""
        try:
            words = process.cmdline()
            return process.name(), "-m" in words and words[words.index("-m") + 1].partition(".")[0] == _OURS
        except (self._system.Error, IndexError):
            return "", False
