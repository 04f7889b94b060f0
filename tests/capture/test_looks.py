"""Where something changes in a training, the next steps are taken whole, whatever the budget had in mind."""

from __future__ import annotations

import gc
import math

import pytest
import torch
from torch import nn

from barograph.model.facts import Fact, fact
from barograph.model.key import Kind
from barograph.model.selection import Selection, every
from barograph.model.step import Mode

TIGHT = {"budget": 1e-6, "preset": "moments"}


def loss_of(model, factor=1.0):
    return factor * nn.functional.mse_loss(model(torch.ones(8, 4)), torch.ones(8, 2))


def step(model, optimizer, factor=1.0):
    optimizer.zero_grad()
    loss_of(model, factor).backward()
    optimizer.step()


def whole(tape):
    """Return the steps of which weights were taken."""
    return [records.step.number for records in tape.steps(Mode.TRAIN) if records.moments is not None and any(
        str(subject.key).startswith("weight:") for subject in records.subjects)]


@pytest.fixture
def exhausted(record):
    """Start a recording that has tensors at powers of two alone, for want of budget."""

    def start(**settings):
        # Optimizers of tests before, not collected yet, would be several.
        gc.collect()
        return record(**TIGHT, **settings)

    return start


def test_a_loss_that_jumps_is_seen_though_the_budget_has_no_room(exhausted):
    tape, model = exhausted(), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    for number in range(80):
        step(model, optimizer, 1e6 if number == 60 else 1.0)
    assert [number for number in whole(tape) if number < 60] == [0, 1, 2, 4, 8, 16, 32]
    assert [number for number in whole(tape) if number > 60][:4] == [61, 62, 63, 64]
    assert tape.numbers() == list(range(80))


def test_an_optimizer_that_comes_late_is_looked_at(exhausted):
    tape, model = exhausted(), nn.Linear(4, 2)
    first = torch.optim.SGD(model.parameters(), 1e-4)
    for _ in range(60):
        step(model, first)
    second = torch.optim.Adam(model.parameters(), 1e-4)
    for _ in range(10):
        step(model, second)
    assert len([number for number in whole(tape) if number > 32 or number < 5]) > 5


def test_a_training_that_jumps_all_the_time_is_not_looked_at_for_ever(exhausted):
    tape, model = exhausted(), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    for number in range(2_000):
        step(model, optimizer, 1e6 if number % 40 == 39 else 1.0)
    assert len(whole(tape)) <= 12 + 8 * 5


def test_a_jump_much_higher_than_one_just_before_is_recorded_at_once(exhausted):
    tape, model = exhausted(), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    factors = {60: 10.0, 68: 1e6}
    for number in range(80):
        step(model, optimizer, factors.get(number, 1.0))
    assert [number for number in whole(tape) if number > 64] == [69, 70, 71, 72]


def test_a_jump_as_high_as_one_just_before_waits(exhausted):
    tape, model = exhausted(), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    factors = {60: 1e3, 68: 2e3}
    for number in range(90):
        step(model, optimizer, factors.get(number, 1.0))
    assert [number for number in whole(tape) if 64 < number < 77] == []


def test_a_loss_that_rises_for_ever_is_not_looked_at_for_ever(exhausted):
    tape, model = exhausted(), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    for number in range(400):
        step(model, optimizer, 1e3 ** max(0, number // 10 - 5) if number % 10 == 9 else 1.0)
    assert len(whole(tape)) <= 10 + (8 + 4) * 4


def test_a_loss_that_stays_nan_has_everything_taken_three_times(exhausted):
    tape, model = exhausted(), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    for number in range(60):
        step(model, optimizer, math.nan if number >= 20 else 1.0)
    assert [number for number in whole(tape) if number >= 20][:3] == [20, 21, 22]
    assert len(whole(tape)) <= 7 + 3 + 4 * 5


def test_another_model_has_not_met_the_samples_of_the_one_before(record):
    tape = record(preset="standard", needs=())
    memory = tape.integration._recorders.data._batches._memory
    memory.learn(torch.arange(5).numpy())
    model = nn.Linear(4, 2)
    step(model, torch.optim.SGD(model.parameters(), 0.1))
    assert len(memory) >= 5
    other = nn.Linear(4, 2)
    step(other, torch.optim.SGD(other.parameters(), 0.1))
    assert len(memory) == 0


def test_facts_are_recorded_at_the_steps_after_a_late_optimizer(record):
    gc.collect()
    facts = Selection(name="facts", kinds=frozenset({Kind.FACT}), schedule=every(50))
    tape, model = record(budget=1e-6, preset="free", collections=(facts,)), nn.Linear(4, 2)
    first = torch.optim.SGD(model.parameters(), 1e-4)
    for _ in range(60):
        step(model, first)
    second = torch.optim.Adam(model.parameters(), 1e-4)
    for _ in range(20):
        step(model, second)
    late = [records.step.number for records in tape.steps(Mode.TRAIN, optimizer=None)
            if records.step.tick >= 60 and fact(Fact.PARAMETERS) in records.scalars]
    assert late == list(range(late[0], late[0] + 4))


def test_facts_are_recorded_at_four_steps_also_after_a_look_that_waited(record):
    gc.collect()
    facts = Selection(name="facts", kinds=frozenset({Kind.FACT}), schedule=every(50))
    tape, model = record(budget=1e-6, preset="free", collections=(facts,)), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    factors = {66: 1e6, 72: 1e6}
    for number in range(128):
        step(model, optimizer, factors.get(number, 1.0))
    recorded = [records.step.number for records in tape.steps(Mode.TRAIN)
                if records.step.number > 72 and fact(Fact.PARAMETERS) in records.scalars]
    assert len(recorded) == 4
