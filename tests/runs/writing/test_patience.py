"""A thread that works is waited for, and one that stands is given up."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from barograph.runs.writing.patience import thread_cpu_secs, wait_while_working


class Standing(threading.Thread):
    """A thread that ends when it has been waited for so often."""

    def __init__(self, joins: int) -> None:
        super().__init__()
        self.joins = joins

    def join(self, timeout: float | None = None) -> None:
        self.joins -= 1

    def is_alive(self) -> bool:
        return self.joins > 0


@pytest.fixture
def seconds() -> Iterator[float]:
    """Half seconds, as they pass from look to look."""
    return (number / 2 for number in range(10_000))


def test_a_thread_that_stands_is_given_up_after_that_time(seconds: Iterator[float]) -> None:
    thread = Standing(joins=1000)
    assert not wait_while_working(thread, 10.0, clock=lambda: next(seconds), cpu_secs=lambda _: 1.5)
    assert 1000 - thread.joins == 20


def test_a_thread_that_works_on_a_busy_machine_is_waited_for(seconds: Iterator[float]) -> None:
    worked = iter(number * 0.02 for number in range(10_000))
    thread = Standing(joins=200)
    assert wait_while_working(thread, 10.0, clock=lambda: next(seconds), cpu_secs=lambda _: next(worked))


def test_nobody_is_waited_for_for_ever(seconds: Iterator[float]) -> None:
    worked = iter(float(number) for number in range(10_000))
    assert not wait_while_working(Standing(joins=5000), 10.0, clock=lambda: next(seconds),
                                  cpu_secs=lambda _: next(worked))


def test_where_nothing_is_told_of_threads_the_time_is_all(seconds: Iterator[float]) -> None:
    thread = Standing(joins=1000)
    assert not wait_while_working(thread, 10.0, clock=lambda: next(seconds), cpu_secs=lambda _: None)
    assert 1000 - thread.joins == 20


def test_what_a_thread_has_worked_is_told() -> None:
    thread = threading.current_thread()
    before = thread_cpu_secs(thread)
    sum(range(100_000))
    after = thread_cpu_secs(thread)
    assert before is None or (after is not None and after > before)
    assert thread_cpu_secs(threading.Thread()) is None


def test_a_process_that_took_the_place_of_another_begins_anew(seconds: Iterator[float]) -> None:
    worked = iter([5.0, 5.0, 0.1, 0.2, *(0.2 + number * 0.02 for number in range(10_000))])
    assert wait_while_working(Standing(joins=200), 10.0, clock=lambda: next(seconds), cpu_secs=lambda _: next(worked))


def test_a_thread_that_works_is_waited_for_with_a_short_limit_too(
    monkeypatch: pytest.MonkeyPatch, seconds: Iterator[float]
) -> None:
    worked = iter(float(number) for number in range(10_000))
    monkeypatch.setattr("barograph.runs.writing.patience.thread_cpu_secs", lambda _: next(worked))
    assert wait_while_working(Standing(joins=5), 0.4, clock=lambda: next(seconds))
