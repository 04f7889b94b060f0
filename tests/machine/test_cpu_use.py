"""How many cores a process uses."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import psutil
import pytest

from barograph.machine.cpu_use import CpuUse, process_cpu_secs


def readings(*values: float) -> Callable[[], float]:
    found = iter(values)
    return lambda: next(found)


@pytest.mark.parametrize(("used", "idle", "cores"), [
    ((1.0, 4.0), (0.0, 15.0), 0.3), ((0.0, 20.0), (5.0, 8.0), 2.0), ((0.0, 3.0), (0.0, 1.9), None),
])
def test_the_mean_number_of_cores(used: tuple[float, float], idle: tuple[float, float], cores: float | None) -> None:
    use = CpuUse(now=readings(100.0, 110.0), used_secs=readings(*used), idle_secs=readings(*idle), cores=2)
    assert use.mean_cores() == (cores and pytest.approx(cores))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes cannot be tied to CPUs here")
def test_idle_cpus_that_this_process_may_not_use_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = iter([(100.0, 100.0, 100.0, 100.0), (100.1, 100.2, 110.0, 110.0)])
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [SimpleNamespace(idle=secs) for secs in next(idle)])
    use = CpuUse(now=readings(0.0, 10.0), used_secs=readings(0.0, 5.0))
    assert use.mean_cores() is None


def test_no_time_gives_no_number() -> None:
    assert CpuUse(now=lambda: 1.0).mean_cores() is None


def test_a_process_that_computes_uses_a_part_of_a_core() -> None:
    use = CpuUse(idle_secs=readings(0.0, 1e9))
    begin = time.process_time()
    while time.process_time() - begin < 0.2:
        pass
    cores = use.mean_cores()
    assert cores is not None
    assert 0.0 < cores < 1.5


def test_the_time_of_another_process_is_known_while_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = process_cpu_secs(os.getpid())
    assert ours is not None
    assert ours > 0
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert process_cpu_secs(ended.pid) is None

    def has_no_descriptors(pid: int) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(psutil, "Process", has_no_descriptors)
    assert process_cpu_secs(os.getpid()) is None
