"""One sampler a machine, at its beat, within its share of a core."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.machine.host_lock import HostLock
from barograph.machine.sampler import SHARE, TRY_LOCK_SECS, Sampler
from barograph.model.clock import ManualClock
from machine.nvml import Library


class Shop:
    """Samplers of one machine, with a clock that moves when it is told to."""

    def __init__(self, locks: Path) -> None:
        self.clock = ManualClock()
        self.locks = locks
        self.cost = 0.0
        self.samplers: list[Sampler] = []

    def sampler(self, run: str = "run 0", *, hz: float = 2.0, visible: str | None = None, nvml: Any = None) -> Sampler:
        environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        ticks = iter(range(10**9))
        self.samplers.append(Sampler(
            hz=hz, pid=os.getpid(), run=run, clock=self.clock, environment=environment, nvml=nvml or Library(0),
            cpu_time=lambda: next(ticks) * self.cost, locks=self.locks,
        ))
        return self.samplers[-1]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    for sampler in shop.samplers:
        sampler.close()


def test_samples_come_at_the_beat_that_is_asked_for(shop: Shop) -> None:
    sampler = shop.sampler(hz=2.0)
    came = []
    for _ in range(17):
        came.append(bool(sampler.sample()))
        shop.clock.advance(0.125)
    assert [turn for turn, is_there in enumerate(came) if is_there] == [0, 4, 8, 12, 16]


def test_none_are_asked_for_none_come(shop: Shop) -> None:
    assert shop.sampler(hz=0.0).sample() == {}


def test_samples_that_are_dear_come_more_rarely(shop: Shop) -> None:
    sampler = shop.sampler(hz=10.0)
    shop.cost = 0.02
    sampler.sample()
    shop.clock.advance(0.02 / SHARE - 0.01)
    assert sampler.sample() == {}
    shop.clock.advance(10.0)
    assert sampler.sample()


def test_of_two_workers_one_tells_of_the_machine_and_each_of_itself(shop: Shop) -> None:
    first, second = shop.sampler(), shop.sampler()
    assert {"memory", "process_memory"} <= set(first.sample())
    assert set(second.sample()) == {"process_memory", "loader_processes", "cores"}


def test_where_the_one_ends_the_other_goes_on(shop: Shop) -> None:
    first, second = shop.sampler(), shop.sampler()
    first.sample(), second.sample()
    first.close()
    shop.clock.advance(TRY_LOCK_SECS)
    assert "memory" in second.sample()


def test_workers_of_different_runs_do_not_wait_for_each_other(shop: Shop) -> None:
    assert "memory" in shop.sampler("a").sample()
    assert "memory" in shop.sampler("b").sample()


def test_workers_that_see_different_gpus_each_tell_of_theirs(shop: Shop) -> None:
    told = [shop.sampler(visible=visible, nvml=Library(2)).sample() for visible in ("0", "1", "1")]
    assert [[name for name in figures if name.startswith("gpu[")] for figures in told] == [["gpu[0]"], ["gpu[1]"], []]


def test_a_problem_with_the_gpus_is_told(shop: Shop) -> None:
    sampler = shop.sampler(nvml=Library(fails=Library.NVMLError("no permission")))
    assert sampler.problem == ""
    sampler.sample()
    assert "no permission" in sampler.problem


def test_a_lock_is_let_go_when_its_process_dies(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    held, end = context.Event(), context.Event()

    def hold() -> None:
        HostLock("a", tmp_path).take()
        held.set()
        end.wait(600)
        os._exit(0)

    child = context.Process(target=hold)
    child.start()
    assert held.wait(600)
    lock = HostLock("a", tmp_path)
    assert not lock.take()
    end.set()
    child.join(600)
    assert lock.take()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_many_at_once_have_one_that_holds_it(tmp_path: Path) -> None:
    locks = [HostLock("a", tmp_path) for _ in range(16)]
    start, taken = threading.Barrier(16), []

    def take(lock: HostLock) -> None:
        start.wait(600)
        taken.append(lock.take())

    threads = [threading.Thread(target=take, args=(lock,)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 15 + [True]


def test_where_there_is_no_place_for_a_lock_everybody_holds_it(tmp_path: Path) -> None:
    assert HostLock("a", tmp_path / "no such folder").take()


def test_files_of_locks_whose_holders_were_killed_are_taken_away(tmp_path: Path) -> None:
    held, other = HostLock("held", tmp_path), tmp_path / "barograph-notes.lock"
    assert held.take()
    (of_held,) = tmp_path.glob("*.lock")
    other.touch()
    gone = of_held.with_name(f"barograph-{'0' * 24}.lock")
    gone.touch()
    mine = HostLock("mine", tmp_path)
    assert mine.take()
    assert not gone.exists()
    assert other.exists()
    assert of_held.exists()
    mine.release()
    held.release()
    assert list(tmp_path.iterdir()) == [other]
