"""Where only what was handed over is recorded, the losses of other models are none of its."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_hooks


class Known(nn.Module):
    """Its loss is known beforehand."""

    def __init__(self, loss: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.loss = loss

    def forward(self) -> torch.Tensor:
        return (self.weight * 0).sum() + self.loss


class Training:
    """A model and its optimizer, one step at a time."""

    def __init__(self, loss: float) -> None:
        self.model = Known(loss)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model().backward()
        self.optimizer.step()


@pytest.fixture
def handed_over(record):
    own = Training(1.0)
    tape = record(only=True, preset="free")
    tape.integration.watch_model(own.model)
    return own, tape


def losses(tape) -> list[float]:
    return [tape.scalar("loss:total", at) for at in range(len(tape.steps()))]


def listens() -> bool:
    return bool(module_hooks._global_forward_pre_hooks)


def test_forward_passes_are_not_listened_to_once_nothing_else_was_trained_for_ten_steps(handed_over):
    own, tape = handed_over
    heard = []
    for _ in range(14):
        own.step()
        heard.append(listens())
    assert heard == [True] * 9 + [False] * 5
    assert losses(tape) == [1.0] * 14


def test_who_trains_another_model_from_the_start_is_listened_to(handed_over):
    own, tape = handed_over
    other = Training(100.0)
    for _ in range(14):
        other.step()
        own.step()
        assert listens()
    assert losses(tape) == [1.0] * 14


@pytest.mark.parametrize("first", [True, False])
def test_a_model_that_comes_later_leaves_no_loss_in_the_steps_of_the_one_handed_over(handed_over, first):
    own, tape = handed_over
    for _ in range(12):
        own.step()
    assert not listens()
    other = Training(100.0)
    for _ in range(6):
        for training in (other, own) if first else (own, other):
            training.step()
        assert listens()
    own.step()
    assert losses(tape) == [1.0] * 19
