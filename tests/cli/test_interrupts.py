"""Ctrl-C while a run is watched: never in the middle of a poll, unless somebody insists."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from barograph.cli.interrupts import Interrupts


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def poll(interrupts: Interrupts, *steps: Callable[[], object]) -> None:
    with interrupts.held_back():
        for step in steps:
            step()


def fail() -> None:
    raise ZeroDivisionError


def test_between_two_polls_it_ends_the_watching_at_once() -> None:
    with Interrupts(ignored=False) as interrupts, pytest.raises(KeyboardInterrupt):
        interrupt()

    assert (interrupts.came, interrupts.in_the_middle) == (True, False)


def test_in_a_poll_it_waits_for_its_end() -> None:
    done: list[str] = []
    with Interrupts(ignored=False) as interrupts, pytest.raises(KeyboardInterrupt):
        poll(interrupts, interrupt, lambda: done.append("the rest"))

    assert done == ["the rest"]
    assert (interrupts.came, interrupts.in_the_middle) == (True, False)


def test_a_second_one_does_not_wait() -> None:
    done: list[str] = []
    with Interrupts(ignored=False) as interrupts, pytest.raises(KeyboardInterrupt):
        poll(interrupts, interrupt, interrupt, lambda: done.append("the rest"))

    assert done == []
    assert (interrupts.came, interrupts.in_the_middle) == (True, True)


def test_an_error_in_a_poll_is_not_hidden_by_it() -> None:
    with Interrupts(ignored=False) as interrupts, pytest.raises(ZeroDivisionError):
        poll(interrupts, interrupt, fail)


def test_beside_a_training_it_is_ignored() -> None:
    with Interrupts(ignored=True) as interrupts:
        poll(interrupts, interrupt)
        interrupt()

    assert not interrupts.came


@pytest.mark.parametrize("former", [signal.default_int_handler, signal.SIG_IGN])
def test_afterwards_all_is_as_before(former: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, former)
    try:
        with Interrupts(ignored=False):
            if former is signal.SIG_IGN:
                interrupt()
        assert signal.getsignal(signal.SIGINT) is former
    finally:
        signal.signal(signal.SIGINT, before)
