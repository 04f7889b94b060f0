"""Targets: their statistics, whether they are class numbers, and whether they stand in the input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from barograph.capture.class_numbers import ClassNumbers
from barograph.model.key import Kind
from barograph.model.selection import Selection

TARGETS = Selection(kinds=frozenset({Kind.FACT, Kind.TARGET}))


def one_step(record, model, loss, x, target, **options):
    tape = record(preset="free", collections=(TARGETS,))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loss(model(x), target, **options).backward()
    optimizer.step()
    return tape


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.poisson_nll_loss])
def test_targets_of_distances_have_statistics(record, loss):
    target = torch.rand(32, 1) * 5 + 1
    tape = one_step(record, nn.Linear(3, 1), loss, torch.randn(32, 3), target)
    found = tape.summary(f"target:{loss.__name__}")
    assert found.sum == pytest.approx(target.double().sum().item(), rel=1e-5)
    assert found.max == target.max()


# Class numbers


def verdict(values, times=1):
    numbers = ClassNumbers()
    for _ in range(times):
        numbers.note(np.asarray(values, np.float64))
    return numbers.verdict


def digits() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 10, 400)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (digits(), True),
        (np.repeat([0, 1, 2], 50), True),
        (digits() + 1, False),
        (np.random.default_rng(0).poisson(2.0, 400), False),
        (np.random.default_rng(0).integers(25, 346, 442), False),
        (np.random.default_rng(0).integers(1, 6, 400), False),
        (np.random.default_rng(0).integers(18, 90, 4000), False),
        (np.repeat([0, 1], 200), False),
        (digits() + 0.5, False),
        (-digits(), False),
        (np.append(digits(), np.nan), False),
        (digits()[:20], None),
        ([], None),
    ],
    ids=["digits", "three kinds of iris", "ratings from 1", "counts", "as diabetes has", "stars", "ages", "yes or no",
         "halves", "negative", "one is NaN", "too few", "none"],
)
def test_class_numbers_are_told_from_honest_values(values, expected):
    assert verdict(values) is expected


def test_class_numbers_are_told_over_several_steps():
    assert verdict(np.arange(10), times=9) is None
    assert verdict(np.arange(10), times=10) is True


def test_a_regression_to_class_numbers_is_told_where_there_is_one_output(record):
    target = torch.arange(5.0).repeat(20)
    tape = one_step(record, nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), F.mse_loss, torch.randn(100, 3), target)
    assert tape.scalar("fact:class_numbers_regressed") == 1


def test_a_regression_to_values_is_well(record):
    tape = one_step(record, nn.Linear(3, 1), F.mse_loss, torch.randn(100, 3), torch.randn(100, 1))
    assert tape.scalar("fact:class_numbers_regressed") == 0


def test_several_outputs_are_no_class_numbers(record):
    tape = one_step(record, nn.Linear(3, 2), F.mse_loss, torch.randn(100, 3), torch.arange(4.0).repeat(50).view(100, 2))
    assert tape.scalar("fact:class_numbers_regressed") == 0


# Targets in the input


class Language(nn.Module):
    def __init__(self, flat=False):
        super().__init__()
        self.embedding, self.linear, self.flat = nn.Embedding(50, 8), nn.Linear(8, 50), flat

    def forward(self, tokens):
        out = self.linear(self.embedding(tokens))
        return out.flatten(0, 1) if self.flat else out.movedim(-1, 1)


TOKENS = torch.randint(1, 50, (4, 17), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(
    ("inputs", "target", "expected"),
    [
        (TOKENS[:, :-1], TOKENS[:, 1:], (False, False, True)),
        (TOKENS[:, 1:], TOKENS[:, 1:], (False, True, False)),
        (TOKENS[:, 1:], TOKENS[:, :-1], (True, False, False)),
    ],
    ids=["the next token", "the same token", "the token before"],
)
def test_what_a_language_model_is_to_say_is_compared_with_what_it_hears(record, flat, inputs, target, expected):
    target = target.flatten() if flat else target
    tape = one_step(record, Language(flat), F.cross_entropy, inputs.contiguous(), target)
    assert tuple(tape.scalar(f"fact:target_is_input[{shift}]") > 0.9 for shift in (-1, 0, 1)) == expected


def test_a_model_that_cuts_its_last_answer_off_is_compared_too(record):
    tape = record(preset="free", collections=(TARGETS,))
    model = Language()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    F.cross_entropy(model(TOKENS)[:, :, :-1], TOKENS[:, 1:]).backward()
    optimizer.step()
    assert tape.scalar("fact:target_is_input[1]") == 1
    assert tape.scalar("fact:target_is_input[0]") < 0.2


def test_tokens_to_be_ignored_are_not_compared(record):
    target = TOKENS.clone()
    target[:, ::2] = -100
    tape = one_step(record, Language(), F.cross_entropy, TOKENS, target)
    assert tape.scalar("fact:target_is_input[0]") == 1


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss])
def test_a_column_that_is_the_target_is_named(record, loss):
    x = torch.randn(40, 5)
    tape = one_step(record, nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)), loss, x, x[:, 3].clone())
    assert tape.scalar("fact:target_is_input[column 3]") == 1


def test_a_column_that_is_the_label_is_named(record):
    x, y = torch.randn(40, 5), torch.randint(0, 3, (40,))
    x[:, 2] = y
    tape = one_step(record, nn.Linear(5, 3), F.cross_entropy, x, y)
    assert tape.scalar("fact:target_is_input[column 2]") == 1


def test_targets_that_stand_in_no_column_are_well(record):
    x = torch.randn(40, 5)
    tape = one_step(record, nn.Linear(5, 1), F.mse_loss, x, x[:, 3:4] * 2)
    assert tape.scalar("fact:target_is_input") == 0
    assert "fact:target_is_input[column 3]" not in tape.names()


def test_targets_that_are_all_the_same_tell_nothing_of_a_column_of_ones(record):
    x = torch.ones(40, 5)
    tape = one_step(record, nn.Linear(5, 1), F.mse_loss, x, torch.ones(40, 1))
    assert not any(name.startswith("fact:target_is_input") for name in tape.names())


def test_a_model_that_draws_its_input_anew_is_well(record):
    x = torch.rand(40, 5)
    tape = one_step(record, nn.Linear(5, 5), F.mse_loss, x, x)
    assert not any(name.startswith("fact:target_is_input") for name in tape.names())


def test_what_the_script_changes_after_the_loss_was_read_before(record):
    tape = record(preset="free", collections=(Selection(kinds=frozenset(Kind)),))
    model, scale = nn.Linear(4, 3), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *scale.parameters()], 0.1)
    x, y, values = torch.ones(2, 4), torch.tensor([1, 2]), torch.full((2, 1), 5.0)
    (F.cross_entropy(model(x), y) + F.mse_loss(scale(x), values)).backward()
    for tensor in (x, y, values):
        tensor.zero_()
    optimizer.step()
    assert tape.scalar("label:cross_entropy[1]") == tape.scalar("label:cross_entropy[2]") == 1
    assert tape.summary("target:mse_loss").sum == 10
    assert tape.summary("batch:Linear[0]").sum == 8


def test_tokens_that_the_script_overwrites_were_read_before(record):
    tape = record(preset="free", collections=(Selection(kinds=frozenset(Kind)),))
    model = Language()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    tokens = torch.full((2, 6), 7)
    model(tokens).sum().backward()
    tokens.zero_()
    optimizer.step()
    assert tape.scalar("fact:padding[0]") == 0
    assert tape.scalar("fact:padding[7]") == 1
