"""Several trainings in one process, one after the other: folds, seeds, settings that are tried."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from barograph.model.step import Mode


class Generator(nn.Linear):
    """A model by its name."""


class Critic(nn.Linear):
    """Another."""


def fresh():
    """Return a model and its optimizer, as each fold makes them anew."""
    model = nn.Linear(4, 3)
    return model, torch.optim.SGD(model.parameters(), 0.1)


def train(model, optimizer, steps):
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
        optimizer.step()


def evaluate(model):
    model.eval()
    with torch.no_grad():
        F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,)))


def test_each_training_after_the_first_has_its_own_series_and_evaluations(record):
    tape = record()
    for _ in range(3):
        model, optimizer = fresh()
        train(model, optimizer, 2)
        evaluate(model)
        train(model, optimizer, 1)
        evaluate(model)
    tape.close()
    for label in ("", "#2", "#3"):
        assert tape.numbers(optimizer=label) == [0, 1, 2]
        assert tape.numbers(Mode.EVAL, label) == [2, 3]
        assert f"weight:{f'Linear{label}.' if label else ''}weight" in tape.summaries(tape.steps(optimizer=label)[0])
    assert len(tape.steps()) == 9


def test_a_training_is_no_other_gone_on_with_though_python_puts_its_weights_in_the_same_place(record):
    tape = record()
    for _ in range(6):
        model, optimizer = fresh()
        train(model, optimizer, 2)
        del model, optimizer
    labels = list(dict.fromkeys(records.step.optimizer for records in tape.steps()))
    assert labels == ["", "#2", "#3", "#4", "#5", "#6"]
    assert all(tape.numbers(optimizer=label) == [0, 1] for label in labels)


def test_an_optimizer_that_only_the_collector_can_free_is_gone_once_another_has_taken_over(record):
    tape = record()
    for _ in range(2):
        model, optimizer = fresh()
        optimizer.itself = optimizer
        train(model, optimizer, 120)
    assert tape.numbers(optimizer="#2") == list(range(120))


def test_optimizers_that_are_still_held_are_rivals_of_the_one_that_comes(record):
    tape = record()
    held = []
    for kind in (Generator, Critic):
        model = kind(4, 3)
        held.append((model, torch.optim.SGD(model.parameters(), 0.1)))
        train(*held[-1], 120)
    assert [records.step.optimizer for records in tape.steps()][-1] == "Critic"
    assert tape.steps()[-1].step.has_rivals


def test_adversaries_that_come_after_a_training_are_called_by_their_models(record):
    tape = record()
    model, optimizer = fresh()
    train(model, optimizer, 2)
    model, first = Generator(4, 3), Critic(4, 3)
    optimizer, second = (torch.optim.SGD(part.parameters(), 0.1) for part in (model, first))
    for _ in range(2):
        train(model, optimizer, 1)
        train(first, second, 1)
    evaluate(model)
    tape.close()
    assert tape.numbers(optimizer="Generator") == tape.numbers(optimizer="Critic") == [0, 1]
    assert tape.steps(Mode.EVAL)[0].step.optimizer == ""


@pytest.mark.parametrize("held", [False, True])
def test_a_later_training_has_its_losses_recorded_within_the_budget(record, held):
    tape = record(budget=0.04, preset="standard")
    kept = []
    for _ in range(2):
        model, optimizer = fresh()
        # The first one is long enough that steps are recorded far apart, and that its own count is on no grid.
        train(model, optimizer, 1001 if not kept else 900)
        kept.append((model, optimizer) if held else None)
    later = [records for records in tape.steps() if records.step.optimizer]
    assert sum(1 for records in later if records.step.number > 8) > 5
