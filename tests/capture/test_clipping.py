"""What is clipped is judged by what it was before."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import barograph
from barograph.capture.session import Session
from barograph.errors import TrainingStopped
from barograph.model.capsule import Held


def with_gradients(factor=1.0):
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    (factor * F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 2, 0]))).backward()
    return model, optimizer


def one_by_one(parameters):
    for parameter in parameters:
        nn.utils.clip_grad_norm_(parameter, 0.01)


@pytest.mark.parametrize("clip", [
    lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.5),
    lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.5, norm_type=math.inf),
    lambda parameters: nn.utils.clip_grad_value_(parameters, 0.01),
    one_by_one,
], ids=["norm", "greatest", "value", "one by one"])
def test_a_norm_is_looked_at_before_it_is_clipped(hold, clip):
    seen = []
    tape = hold(norm_above=50.0, when=lambda update: seen.append(update.norms))
    model, optimizer = with_gradients(1000)
    norms = {name: float(parameter.grad.norm()) for name, parameter in model.named_parameters()}
    clip(list(model.parameters()))
    with pytest.raises(TrainingStopped, match="above the bound 50"):
        optimizer.step()
    assert tape.saved[0][0].numbers["norm"] == pytest.approx(math.hypot(*norms.values()), rel=1e-5)
    assert seen[0] == pytest.approx(norms, rel=1e-5)


@pytest.mark.parametrize("lost", [math.inf, -math.inf])
def test_an_infinity_that_clipping_makes_a_number_of_is_held(hold, lost):
    tape = hold()
    model, optimizer = with_gradients()
    model[0].bias.grad[1] = lost
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    assert model[0].bias.grad.abs().max() == 1.0
    with pytest.raises(TrainingStopped, match=r"The gradient of 0.bias is not finite"):
        optimizer.step()
    assert tape.saved[0][0].held is Held.NOT_FINITE


def test_what_was_clipped_in_another_step_is_forgotten(hold):
    tape = hold(norm_above=1e6)
    model, optimizer = with_gradients(100)
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
    model[0].bias.grad[1] = 1e7
    with pytest.raises(TrainingStopped, match="The norm of all gradients is 1e"):
        optimizer.step()
    assert len(tape.saved) == 1


def test_of_a_scaled_gradient_the_norm_is_that_without_the_scale(hold):
    seen = []
    tape = hold(norm_above=1000.0, when=lambda update: seen.append(update.norm))
    model = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters(), 0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    loss = F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 2, 0]))
    expected = math.hypot(*(float(part.norm()) for part in torch.autograd.grad(
        loss, list(model.parameters()), retain_graph=True)))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    assert seen == [pytest.approx(expected, rel=1e-5)]
    assert tape.saved == []


def test_steps_that_clip_are_collected_in_batches_with_their_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    single: list[int] = []
    end_step = Session.end_step

    def counted(session: Session, *args: Any, **kwargs: Any) -> None:
        single.append(session.counts.of_all)
        end_step(session, *args, **kwargs)

    monkeypatch.setattr(Session, "end_step", counted)
    torch.manual_seed(0)
    model, x = nn.Linear(4, 1), torch.randn(8, 4)
    optimizer, losses, norms = torch.optim.SGD(model.parameters(), lr=0.1), [], []
    with barograph.attach(to="memory://clipping/light", watch=False, strict=True, budget=1e-9):
        for _ in range(40):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
            optimizer.step()
            losses.append(loss.item())
    run = barograph.open("memory://clipping/light")
    assert run.series("scalar:gradient_norm_before_clip").values == pytest.approx(norms)
    assert run.series("loss:total").values == pytest.approx(losses)
    assert run.series("learning_rate:group0").values == pytest.approx([0.1] * 40)
    # Those with tensors, and the first of all.
    assert len(single) < 15
