"""Ctrl-C while a run is watched: never in the middle of a poll, unless somebody insists."""

from __future__ import annotations

import signal

import pytest

from barograph.cli.interrupts import Interrupts


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_between_two_polls_it_ends_the_watching_at_once() -> None:
    with Interrupts(ignored=False) as interrupts, pytest.raises(KeyboardInterrupt):
        interrupt()

    assert (interrupts.came, interrupts.in_the_middle) == (True, False)


def test_in_a_poll_it_waits_for_its_end() -> None:
    done = []
    with Interrupts(ignored=False) as interrupts, pytest.raises(KeyboardInterrupt), interrupts.held_back():
        interrupt()
        done.append("the poll")

    assert done == ["the poll"]
    assert (interrupts.came, interrupts.in_the_middle) == (True, False)


def test_a_second_one_does_not_wait() -> None:
    with Interrupts(ignored=False) as interrupts, pytest.raises(KeyboardInterrupt), interrupts.held_back():
        interrupt()
        interrupt()
        pytest.fail("it waited")

    assert (interrupts.came, interrupts.in_the_middle) == (True, True)


def test_an_error_in_a_poll_is_not_hidden_by_it() -> None:
    with Interrupts(ignored=False) as interrupts, pytest.raises(ZeroDivisionError), interrupts.held_back():
        interrupt()
        raise ZeroDivisionError


def test_beside_a_training_it_is_ignored() -> None:
    with Interrupts(ignored=True) as interrupts, interrupts.held_back():
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
