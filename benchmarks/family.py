"""The processor time of a process and its descendants, since a tool may work in another process."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def family_cpu_secs() -> float:
    """Return the processor time of this process, all its threads, and its descendants (if /proc exists)."""
    return time.process_time() + sum(descendants_cpu_secs(Path("/proc"), os.getpid()))


def descendants_cpu_secs(proc: Path, ancestor: int) -> list[float]:
    """Return the processor time of each living descendant of `ancestor`; empty without /proc."""
    stats: dict[int, tuple[int, float]] = {}
    for path in proc.glob("[0-9]*/stat"):
        try:
            # After the name in parentheses, which may contain anything: state, parent, …; 11 and 12 further: user,
            # system.
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        stats[int(path.parent.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND)
    family = {ancestor}
    while more := {pid for pid, (parent, _) in stats.items() if parent in family} - family:
        family |= more
    return [stats[pid][1] for pid in sorted(family - {ancestor})]
