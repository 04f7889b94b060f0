"""Metrics of the whole machine from psutil: CPUs, memory, disks and network."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from barograph.machine.container import Container

MANY_CORES = 32
"""With more cores, individual cores are recorded only every few seconds; the busiest one always."""
CORES_APART_SECS = 10.0


class Host:
    """Reads the counters of the machine. Rates are available from the second reading on.

    Args:
        system: A replacement for psutil in tests; None: psutil.
        container: The container of this process.
    """

    def __init__(self, system: Any = None, container: Container | None = None) -> None:
        import psutil

        self._system = system or psutil
        self._problems = (OSError, RuntimeError, ValueError, psutil.Error)
        self._container = container or Container()
        self._cores: list[_CoreTimes] | None = None
        self._counters: dict[str, float] = {}
        self._last: float | None = None
        self._cores_due = float("-inf")
        self._failing: dict[str, str] = {}

    def read(self, now: float) -> dict[str, float]:
        """Return metrics by name, as in `Kind.MACHINE`.

        Args:
            now: Seconds of a monotonic clock.
        """
        return {**self._read("processors", lambda: self._processors(now)), **self._read("memory", self._memory),
                **self._rates(now)}

    @property
    def problem(self) -> str:
        """What could not be read, for people; "" if all could."""
        return "; ".join(self._failing.values())

    def _read(self, what: str, part: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the metrics of one part; empty if this system does not provide them."""
        try:
            return part()
        except self._problems as error:
            # A container may hide any file of /proc.
            self._failing.setdefault(what, f"the use of {what} was not recorded: {error or type(error).__name__}")
            return {}

    def _processors(self, now: float) -> dict[str, float]:
        times = [_CoreTimes.of(core) for core in self._system.cpu_times(percpu=True)]
        before, self._cores = self._cores, times
        # A core was added or removed meanwhile, so cores cannot be matched.
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
        # A counter that decreased was reset, or has another set of disks.
        return {name: (value - before[name]) / secs for name, value in counters.items()
                if name in before and value >= before[name]}

    def _disk(self) -> dict[str, float]:
        disk = self._system.disk_io_counters()
        if disk is None:
            return {}
        return {"disk_read": float(disk.read_bytes), "disk_write": float(disk.write_bytes)}

    def _network(self) -> dict[str, float]:
        # The loopback interface is not network traffic.
        cards = [card for name, card in self._system.net_io_counters(pernic=True).items() if not name.startswith("lo")]
        if not cards:
            return {}
        return {"net_sent": float(sum(card.bytes_sent for card in cards)),
                "net_received": float(sum(card.bytes_recv for card in cards))}


def cores_to_use() -> int:
    """Return how many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def cpus_to_use(container: Container | None = None, cores: int | None = None) -> float:
    """Return how many CPUs this process may keep busy, at least 1: fewer than its cores if the container has a quota.

    Args:
        container: The container of this process.
        cores: CPUs that it may use; None: find out.
    """
    quota = (container or Container()).cpus()
    cores = cores or cores_to_use()
    return float(cores) if quota is None else max(1.0, min(float(cores), quota))


def memory_bytes() -> int:
    """Return the memory of the container, or else of the machine."""
    limited = Container().memory()
    if limited:
        return limited[1]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    import psutil  # loaded here: commands that start a job need nothing else of it

    return int(psutil.virtual_memory().total)


def interface_of(address: str) -> str:
    """Return the network interface with an address of this machine; "eth0" if none has it, as behind NAT."""
    import psutil  # takes 40 ms to load

    wanted = "127.0.0.1" if address.startswith("127.") else address
    return next((name for name, cards in psutil.net_if_addrs().items()
                 if any(card.address == wanted for card in cards)), "eth0")


class _CoreTimes:
    """CPU times of one core since boot."""

    __slots__ = ("idle", "total", "waiting")

    def __init__(self, total: float, idle: float, waiting: float | None) -> None:
        self.total, self.idle, self.waiting = total, idle, waiting

    @classmethod
    def of(cls, times: Any) -> _CoreTimes:
        # On Linux, user time includes guest time.
        guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        waiting = getattr(times, "iowait", None)
        return cls(sum(times) - guests, times.idle + (waiting or 0.0), waiting)

    def busy_since(self, before: _CoreTimes) -> float:
        total = self.total - before.total
        return 1 - (self.idle - before.idle) / total if total > 0 else 0.0


def _percent(share: float) -> float:
    # These counters are no more precise than a tenth, and round numbers need less space on disk.
    return round(100 * min(1.0, max(0.0, share)), 1)
