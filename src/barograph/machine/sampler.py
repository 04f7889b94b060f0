"""Sampling of machine metrics, a few times a second, outside of the training thread.

Every worker records its own process. Metrics of the machine and its GPUs are recorded once, by the worker
that holds a lock; when it ends, another takes over. There is a GPU lock for each set of visible GPUs,
because some launchers show each worker only its own GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import thread_time
from typing import Any

import psutil

from barograph.machine.family import Family
from barograph.machine.gpus import VISIBLE_VARIABLE, Gpus
from barograph.machine.host import Host
from barograph.machine.host_lock import HostLock
from barograph.model.clock import Clock

SHARE = 0.01
"""Largest share of one core for sampling. If a sample takes longer, the next one is delayed."""
TRY_LOCK_SECS = 10.0


class Sampler:
    """Returns machine metrics when they are due.

    Args:
        hz: Samples a second; 0: none.
        pid: Process ID of the training process.
        run: Unique name of this run and attempt.
        clock: Clock.
        environment: Environment of the training process; None: of this one.
        system: psutil, or a replacement in tests.
        nvml: pynvml, or a replacement in tests; None: load it.
        cpu_time: Returns the CPU seconds of this thread.
        locks: Folder of the locks; None: the lock folder of the machine.
    """

    def __init__(
        self,
        *,
        hz: float,
        pid: int,
        run: str,
        clock: Clock,
        environment: Mapping[str, str] | None = None,
        system: Any = psutil,
        nvml: Any = None,
        cpu_time: Callable[[], float] = thread_time,
        locks: Path | None = None,
    ) -> None:
        self._interval_secs = 1 / hz if hz > 0 else float("inf")
        self._clock = clock
        self._system, self._nvml = system, nvml
        self._pid = pid
        self._visible = (os.environ if environment is None else environment).get(VISIBLE_VARIABLE)
        self._cpu_time = cpu_time
        self._host_lock = HostLock(f"host {run}", locks)
        self._gpu_lock = HostLock(f"gpus {self._visible} {run}", locks)
        self._family: Family | None = None
        self._host: Host | None = None
        self._gpus: Gpus | None = None
        self._try_lock_at = float("-inf")
        self._due = clock.monotonic() if hz > 0 else float("inf")

    @property
    def problem(self) -> str:
        """What could not be read, for people; "" if all could."""
        parts = [part.problem for part in (self._host, self._gpus) if part is not None]
        return "; ".join(text for text in parts if text)

    def sample(self) -> dict[str, float]:
        """Return metrics by name, as in `Kind.MACHINE`; empty if no sample is due."""
        now = self._clock.monotonic()
        if now < self._due:
            return {}
        begin = self._cpu_time()
        if now >= self._try_lock_at:
            self._take_locks(now)
        if self._family is None:
            self._family = self._family_of()
        figures = self._family.read(now) if self._family is not None else {}
        if self._host is not None:
            figures.update(self._host.read(now))
        if self._gpus is not None:
            figures.update(self._gpus.read())
        # At a regular interval, unless it fell behind or is expensive.
        self._due = max(self._due + self._interval_secs, now + (self._cpu_time() - begin) / SHARE)
        if self._due < now:
            self._due = now + self._interval_secs
        return figures

    def close(self) -> None:
        """Release the locks, so that another worker of this machine takes over."""
        self._due = float("inf")
        if self._gpus is not None:
            self._gpus.close()
        self._host_lock.release()
        self._gpu_lock.release()

    def _take_locks(self, now: float) -> None:
        self._try_lock_at = now + TRY_LOCK_SECS
        if self._host is None and self._host_lock.take():
            self._host = Host(self._system)
        if self._gpus is None and self._gpu_lock.take():
            self._gpus = Gpus(self._visible, self._nvml)

    def _family_of(self) -> Family | None:
        try:
            return Family(self._pid, self._system, cpu_time=self._cpu_time)
        except self._system.Error:
            return None  # it has ended meanwhile
