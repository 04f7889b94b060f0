"""An error of ours does not end the user's training."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from barograph.capture.guard import BarographWarning, Guard
from barograph.capture.torch_read import Reader


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
    assert tape.session.steps_made == 3


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
    assert "Barograph: reading: Ours: bug" in capsys.readouterr().err
    assert len(guard.problems) == 1


def test_something_worth_noting_warns_nobody(recwarn):
    guard = Guard(strict=False)
    guard.note("the plain loop serves")
    assert guard.problems == ("the plain loop serves",)
    assert not recwarn.list
