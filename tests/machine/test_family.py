"""What the training process and its children use, Barograph's own left out."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from barograph.machine.family import CHILDREN_APART_SECS, Family

MIB = 2**20


class Process:
    """One process as psutil shows it, with what a test gives it."""

    def __init__(self, pid: int, name: str = "python", command: tuple[str, ...] = ("python", "train.py")) -> None:
        self.pid, self._name, self._command = pid, name, command
        self.rss, self.cpu = MIB, 0.0
        self.gone = False
        self.young: list[Process] = []

    @contextlib.contextmanager
    def oneshot(self) -> Iterator[None]:
        yield

    def _here(self) -> None:
        if self.gone:
            raise psutil.NoSuchProcess(self.pid)

    def cpu_times(self) -> Any:
        self._here()
        return SimpleNamespace(user=self.cpu, system=0.0)

    def memory_info(self) -> Any:
        self._here()
        return SimpleNamespace(rss=self.rss)

    def children(self, recursive: bool) -> list[Process]:
        self._here()
        return list(self.young)

    def cmdline(self) -> list[str]:
        self._here()
        return list(self._command)

    def name(self) -> str:
        return self._name

    def cpu_affinity(self) -> list[int]:
        return [0, 1, 2, 3]


def family(trainer: Process) -> Family:
    return Family(trainer.pid, SimpleNamespace(Process=lambda pid: trainer, Error=psutil.Error), cpu_time=lambda: 0.0)


def test_memory_is_that_of_all_and_loaders_are_counted() -> None:
    trainer = Process(1)
    trainer.young = [Process(2, "pt_data_worker"), Process(3, "pt_data_worker"), Process(4)]
    found = family(trainer).read(0.0)
    assert found == {"process_memory": 4.0 * MIB, "loader_processes": 2.0, "cores": 4.0}


@pytest.mark.parametrize(
    "command",
    [
        ("python", "-P", "-m", "barograph.runs.writing.writer_process", "5"),
        ("python", "-P", "-m", "barograph", "watch", "runs/a"),
    ],
)
def test_what_barograph_itself_runs_does_not_count(command: tuple[str, ...]) -> None:
    trainer = Process(1)
    trainer.young = [Process(2, command=command), Process(os.getpid())]
    assert family(trainer).read(0.0)["process_memory"] == MIB


def test_a_script_in_a_folder_of_that_name_counts() -> None:
    trainer = Process(1)
    trainer.young = [Process(2, command=("python", "barograph/train.py")), Process(3, command=("python", "-m"))]
    assert family(trainer).read(0.0)["process_memory"] == 3 * MIB


def test_computing_is_told_in_percent_of_a_core_over_all() -> None:
    trainer, child = Process(1), Process(2)
    trainer.young = [child]
    found = family(trainer)
    found.read(0.0)
    trainer.cpu, child.cpu = 1.0, 0.5
    assert found.read(1.0)["process_cpu"] == 150.0


def test_a_child_that_came_or_went_does_not_disturb_the_others() -> None:
    trainer, child = Process(1), Process(2)
    found = family(trainer)
    found.read(0.0)
    child.cpu = 100.0
    trainer.young, trainer.cpu = [child], CHILDREN_APART_SECS
    assert found.read(CHILDREN_APART_SECS)["process_cpu"] == 100.0
    child.gone, trainer.cpu = True, CHILDREN_APART_SECS + 1
    assert found.read(CHILDREN_APART_SECS + 1)["process_cpu"] == 100.0


def test_children_are_looked_for_only_now_and_then() -> None:
    trainer = Process(1)
    found = family(trainer)
    found.read(0.0)
    trainer.young = [Process(2, "pt_data_worker")]
    assert found.read(CHILDREN_APART_SECS - 1)["loader_processes"] == 0
    assert found.read(CHILDREN_APART_SECS)["loader_processes"] == 1


def test_a_process_that_is_gone_uses_nothing() -> None:
    trainer = Process(1)
    found = family(trainer)
    trainer.gone = True
    assert found.read(0.0) == {}


def test_a_real_child_is_found() -> None:
    ready = multiprocessing.get_context("fork").Event()
    child = multiprocessing.get_context("fork").Process(target=ready.wait, args=(60,))
    child.start()
    try:
        alone = Family(child.pid or 0).read(0.0)
        both = Family(os.getpid()).read(0.0)
        assert 0 < alone["process_memory"] < both["process_memory"]
    finally:
        ready.set()
        child.join()
