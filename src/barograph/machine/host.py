"""What of the whole machine is used: processors, memory, disks and network, as psutil tells."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import psutil

from barograph.machine.container import Container

MANY_CORES = 32
"""On machines with more, each core for itself is told only every few seconds; the busiest one always."""
CORES_APART_SECS = 10.0


class Host:
    """Reads the machine's own counters; what is a rate is told from the second reading on.

    Args:
        system: psutil, or what stands in for it.
        container: Tells of the container that this runs in.
    """

    def __init__(self, system: Any = psutil, container: Container | None = None) -> None:
        self._system = system
        self._container = container or Container()
        self._cores: list[_CoreTimes] | None = None
        self._counters: dict[str, float] = {}
        self._last: float | None = None
        self._cores_due = float("-inf")
        self._failing: dict[str, str] = {}

    def read(self, now: float) -> dict[str, float]:
        """Return name to figure, the names as in `Kind.MACHINE`.

        Args:
            now: Seconds of one monotonic clock.
        """
        return {**self._read("processors", lambda: self._processors(now)), **self._read("memory", self._memory),
                **self._rates(now)}

    @property
    def problem(self) -> str:
        """What of the machine could not be read, for people; "": all could."""
        return "; ".join(self._failing.values())

    def _read(self, what: str, part: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the figures of one part; none where this system does not tell of it: the others go on."""
        try:
            return part()
        except (OSError, RuntimeError, ValueError, psutil.Error) as error:
            # A container may hide any file of /proc.
            self._failing.setdefault(what, f"the use of {what} was not recorded: {error or type(error).__name__}")
            return {}

    def _processors(self, now: float) -> dict[str, float]:
        times = [_CoreTimes.of(core) for core in self._system.cpu_times(percpu=True)]
        before, self._cores = self._cores, times
        # A core that was taken out or put in meanwhile: which is which is not known.
        if before is None or len(before) != len(times):
            return {}
        total = sum(after.total - core.total for after, core in zip(times, before, strict=True))
        if total <= 0:
            return {}
        busy = [after.busy_since(core) for after, core in zip(times, before, strict=True)]
        idle = sum(after.idle - core.idle for after, core in zip(times, before, strict=True))
        found = {"cpu": _percent(1 - idle / total), "cpu_busiest": _percent(max(busy))}
        if all(core.waiting is not None for core in times):
            waited = sum((after.waiting or 0.0) - (core.waiting or 0.0)
                         for after, core in zip(times, before, strict=True))
            found["cpu_iowait"] = _percent(waited / total)
        if len(busy) <= MANY_CORES or now >= self._cores_due:
            self._cores_due = now + CORES_APART_SECS
            found.update({f"cpu[{core}]": _percent(share) for core, share in enumerate(busy)})
        return found

    def _memory(self) -> dict[str, float]:
        memory = self._system.virtual_memory()
        used, total = self._container.memory() or (memory.total - memory.available, memory.total)
        return {"memory": float(used), "memory_total": float(total)}

    def _rates(self, now: float) -> dict[str, float]:
        counters = {**self._read("disks", self._disk), **self._read("the network", self._network)}
        before, self._counters = self._counters, counters
        secs, self._last = (None if self._last is None else now - self._last), now
        if not secs:
            return {}
        # A counter that went back was set to zero, or is of another set of disks.
        return {name: (value - before[name]) / secs for name, value in counters.items()
                if name in before and value >= before[name]}

    def _disk(self) -> dict[str, float]:
        disk = self._system.disk_io_counters()
        if disk is None:
            return {}
        return {"disk_read": float(disk.read_bytes), "disk_write": float(disk.write_bytes)}

    def _network(self) -> dict[str, float]:
        # What a machine tells itself goes over no network.
        cards = [card for name, card in self._system.net_io_counters(pernic=True).items() if not name.startswith("lo")]
        if not cards:
            return {}
        return {"net_sent": float(sum(card.bytes_sent for card in cards)),
                "net_received": float(sum(card.bytes_recv for card in cards))}


def cores_to_use() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def memory_bytes() -> int:
    """Return how much memory there is: of the container, or else of the machine."""
    limited = Container().memory()
    return limited[1] if limited else int(psutil.virtual_memory().total)


class _CoreTimes:
    """Seconds that one core has spent since the machine began."""

    __slots__ = ("idle", "total", "waiting")

    def __init__(self, total: float, idle: float, waiting: float | None) -> None:
        self.total, self.idle, self.waiting = total, idle, waiting

    @classmethod
    def of(cls, times: Any) -> _CoreTimes:
        # Linux counts the time of guests in that of users, too.
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        waiting = getattr(times, "iowait", None)
        return cls(sum(times) - guests, times.idle + (waiting or 0.0), waiting)

    def busy_since(self, before: _CoreTimes) -> float:
        total = self.total - before.total
        return 1 - (self.idle - before.idle) / total if total > 0 else 0.0


def _percent(share: float) -> float:
    # A tenth is more than these counters know, and what is round takes less room on the disk.
    return round(100 * min(1.0, max(0.0, share)), 1)
