"""An error of ours does not end the user's training."""

from __future__ import annotations

import functools
import os
import signal
import time
import warnings

import pytest
import torch
from torch import nn

from barograph.capture import startup
from barograph.capture.guard import BarographWarning, Guard
from barograph.capture.torch import entry_point
from barograph.capture.torch.read import Reader


class Ours(Exception):
    pass


def fail(*args, **kwargs):
    raise Ours("a bug in the reading")


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def test_training_goes_on_with_one_warning_that_points_at_the_users_line(record, monkeypatch):
    tape = record(strict=False)
    monkeypatch.setattr(Reader, "read_many", fail)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = model.weight.detach().clone()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            step(model, optimizer)
    ours = [item for item in caught if item.category is BarographWarning]
    assert {item.filename for item in ours} == {__file__}
    assert len({str(item.message) for item in ours}) == len(ours)
    assert "Training goes on" in str(ours[0].message)
    assert not torch.equal(before, model.weight)
    assert tape.session.counts.of_busiest == 3


def test_the_problem_is_in_the_runs_papers_with_how_often_it_happened(record, monkeypatch):
    tape = record(strict=False)
    monkeypatch.setattr(Reader, "read_many", fail)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            step(model, optimizer)
    problems = tape.session.status().problems
    assert any("a bug in the reading" in problem and "(9 times)" in problem for problem in problems)


def test_strict_raises_in_the_script(record, monkeypatch):
    record(strict=True)
    monkeypatch.setattr(Reader, "read_many", fail)
    model = nn.Linear(4, 2)
    with pytest.raises(Ours):
        step(model, torch.optim.SGD(model.parameters(), 0.1))


def test_a_script_that_turns_warnings_into_errors_does_not_die_of_ours(capsys):
    guard = Guard(strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guard.caught(Ours("bug"), "reading")
    assert "Barograph: reading failed: Ours: bug" in capsys.readouterr().err
    assert len(guard.problems) == 1


def test_something_worth_noting_warns_nobody(recwarn):
    guard = Guard(strict=False)
    guard.note("the plain loop serves")
    assert guard.problems == ("the plain loop serves",)
    assert not recwarn.list


class TimeIsUp(Exception):
    """What a script's handler of a signal raises."""


def time_is_up(*args):
    raise TimeIsUp


class Handler:
    def method(self, number, frame):
        raise TimeIsUp

    def __call__(self, number, frame):
        raise TimeIsUp


@pytest.mark.parametrize("handler", [
    time_is_up, Handler().method, Handler(), functools.partial(time_is_up, "its own"),
], ids=["function", "method", "object", "partial"])
def test_what_the_scripts_handler_of_a_signal_raises_while_our_code_runs_is_the_scripts(record, monkeypatch, handler):
    record(strict=False)
    monkeypatch.setattr(Reader, "read_many", lambda *args: os.kill(os.getpid(), signal.SIGUSR1))
    model = nn.Linear(4, 2)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeIsUp):
            step(model, torch.optim.SGD(model.parameters(), 0.1))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_starting_up_is_not_charged_to_the_first_step(record, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    for module in (entry_point, startup):
        monkeypatch.setattr(module, "cpu_secs", lambda: now[0])
    tape = record()
    open_writer = tape.session.output._open_writer

    def slow(rank, status):
        now[0] += 5.0
        return open_writer(rank, status)

    tape.session.output._open_writer = slow
    model = nn.Linear(4, 2)
    step(model, torch.optim.SGD(model.parameters(), 0.1))
    assert tape.session.startup.secs == 5.0
    assert tape.session.price.spent_secs == 0.0
