"""Limits of the container: its CPUs, its memory and the use of that."""

from __future__ import annotations

from pathlib import Path

_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Files of both versions of control groups: limit, use, and the reclaimable file cache in it."""
_QUOTAS = ("cpu.max", "cpu/cpu.cfs_quota_us")
_PERIOD = "cpu/cpu.cfs_period_us"
"""Files of both versions with the time on all CPUs in a period; that of version 2 has the period, too."""
_KILLS = ("memory.events", "memory/memory.oom_control")
_NO_LIMIT_BYTES = 2**60
"""Version 1 writes a number above this if there is no limit."""


class Container:
    """The control group of this process on Linux.

    Args:
        folder: Folder of control groups.
    """

    def __init__(self, folder: Path = Path("/sys/fs/cgroup")) -> None:
        self._folder = folder

    def kills(self) -> int:
        """Return how many processes the system has killed here for lack of memory; 0 if that is not counted."""
        for counters in _KILLS:
            try:
                lines = (self._folder / counters).read_text(encoding="ascii").splitlines()
                return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
            except (OSError, ValueError, IndexError, StopIteration):
                continue
        return 0

    def cpus(self) -> float | None:
        """Return on how many CPUs the processes here may run at the same time on average; None without a limit."""
        for name in _QUOTAS:
            try:
                words = (self._folder / name).read_text(encoding="ascii").split()
                words += (self._folder / _PERIOD).read_text(encoding="ascii").split() if len(words) == 1 else []
                quota, period = map(int, words)
            except (OSError, ValueError):  # also for "max"
                continue
            return quota / period if quota > 0 and period > 0 else None
        return None

    def memory(self) -> tuple[int, int] | None:
        """Return the bytes in use and the limit; None without a limit."""
        for limit, use, statistics, dropped in _FILES:
            try:
                limit_bytes = int((self._folder / limit).read_text(encoding="ascii"))
                used = int((self._folder / use).read_text(encoding="ascii"))
                lines = (self._folder / statistics).read_text(encoding="ascii").splitlines()
            except (OSError, ValueError):  # also for "max"
                continue
            if limit_bytes >= _NO_LIMIT_BYTES:
                return None
            cached = next((int(line.split()[1]) for line in lines if line.startswith(f"{dropped} ")), 0)
            return max(0, used - cached), limit_bytes
        return None
