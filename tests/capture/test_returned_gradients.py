"""Which calls of `torch.autograd.grad` belong to steps that a script makes without an optimizer."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

X = torch.linspace(-1, 1, 24).reshape(8, 3)
LR = 0.5


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def loss_of(model, x=X):
    return F.mse_loss(model(x), torch.ones(len(x), 1))


def descend(tensors, gradients):
    with torch.no_grad():
        for item, gradient in zip(tensors, gradients, strict=True):
            item -= LR * gradient


@pytest.mark.parametrize("measured", ["all weights", "one weight that stays", "two losses"])
def test_a_measurement_between_backward_and_its_step_is_no_pass(record, measured):
    tape, model, losses = record(preset="everything"), network(), []
    model[0].bias.requires_grad_(measured != "one weight that stays")
    trained = [item for item in model.parameters() if item.requires_grad]
    model[0].bias.requires_grad_()
    gradients = []
    for _ in range(3):
        loss = loss_of(model)
        losses.append(loss.item())
        loss.backward()
        gradients.append(model[0].weight.grad.clone())
        if measured == "one weight that stays":
            torch.autograd.grad(loss_of(model, X[:4]), model[0].bias)
        else:
            for _ in range(2 if measured == "two losses" else 1):
                torch.autograd.grad(loss_of(model, X[:4]), list(model.parameters()))
        descend(trained, [item.grad for item in trained])
        model.zero_grad()
    tape.close()
    assert tape.numbers() == [0, 1, 2]
    assert [tape.scalar("loss:total", at) for at in range(3)] == pytest.approx(losses)
    assert [tape.summary("gradient:0.weight", at).l2 for at in range(3)] == pytest.approx(
        [float(item.norm()) for item in gradients], rel=1e-5)


def test_a_measurement_after_the_step_of_a_backward_pass_is_no_pass(record):
    tape, model, losses = record(), network(), []
    for _ in range(3):
        loss = loss_of(model)
        losses.append(loss.item())
        loss.backward()
        descend(model.parameters(), [item.grad for item in model.parameters()])
        model.zero_grad()
        torch.autograd.grad(loss_of(model, X[:4]), list(model.parameters()))
    tape.close()
    assert tape.numbers() == [0, 1, 2]
    assert [tape.scalar("loss:total", at) for at in range(3)] == pytest.approx(losses)


@pytest.mark.parametrize("moves", ["each at once", "all at the end"])
def test_calls_for_one_loss_are_one_pass(record, moves):
    tape, model = record(preset="everything"), network()
    losses, updates, gradients = [], [], []
    for _ in range(3):
        before = [item.detach().clone() for item in model.parameters()]
        loss = loss_of(model)
        losses.append(loss.item())
        found = []
        for item in model.parameters():
            found += torch.autograd.grad(loss, item, retain_graph=True)
            if moves == "each at once":
                item.data -= LR * found[-1]
        if moves == "all at the end":
            descend(model.parameters(), found)
        gradients.append([float(item.norm()) for item in found])
        moved = [item.detach() - old for item, old in zip(model.parameters(), before, strict=True)]
        updates.append([float(item.norm()) for item in moved])
    tape.close()
    assert tape.numbers() == [0, 1, 2]
    names = [name for name, _ in model.named_parameters()]
    for at in range(3):
        assert tape.scalar("loss:total", at) == pytest.approx(losses[at])
        assert [tape.summary(f"gradient:{name}", at).l2 for name in names] == pytest.approx(gradients[at], rel=1e-5)
        assert [tape.summary(f"update:{name}", at).l2 for name in names] == pytest.approx(updates[at], rel=1e-4)


def test_passes_over_two_networks_before_either_moves_are_one_step(record):
    tape, two = record(preset="everything"), [network(), network()]
    for _ in range(2):
        losses = [loss_of(two[0]), loss_of(two[1], X[:4])]
        found = [torch.autograd.grad(loss, list(model.parameters())) for loss, model in zip(losses, two, strict=True)]
        for model, gradients in zip(two, found, strict=True):
            descend(model.parameters(), gradients)
    tape.close()
    assert tape.numbers() == [0, 1]
    assert len(tape.names(kind="gradient:")) == 8
    assert tape.scalar("loss:total") == pytest.approx(sum(loss.item() for loss in losses) / 2)


@pytest.mark.parametrize("root", ["several losses", "a vector", "products with a vector", "a batch of products"])
def test_a_product_with_a_vector_is_no_loss(record, root):
    tape, model = record(), network()
    weights = list(model.parameters())
    for _ in range(2):
        outputs = model(X)
        if root == "several losses":
            found = torch.autograd.grad([outputs.mean(), outputs.sum()], weights)
        elif root == "a vector":
            found = torch.autograd.grad(outputs, weights, torch.ones(8, 1))
        elif root == "products with a vector":
            first = torch.autograd.grad(outputs.square().mean(), weights, create_graph=True)
            found = torch.autograd.grad(first, weights, grad_outputs=[torch.ones_like(item) for item in first])
        else:
            found = torch.autograd.grad(outputs.mean(), weights, torch.ones(2), is_grads_batched=True)
            found = [item[0] for item in found]
        descend(weights, found)
    tape.close()
    assert tape.numbers() == []


class Odd(torch.Tensor):
    """A tensor with operations that raise, or with a gradient too many."""

    raising = None
    doubled = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func == cls.raising:
            raise RuntimeError("odd")
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found + found if func is cls.doubled else found


@pytest.mark.parametrize(("odd", "warning"), [
    ("size", r"reading the arguments of torch.autograd.grad failed: RuntimeError: odd"),
    ("leaf", r"reading the arguments of torch.autograd.grad failed: RuntimeError: odd"),
    ("result", "waiting for a step without an optimizer failed: ValueError"),
])
def test_an_odd_tensor_raises_nothing_into_the_script(record, odd, warning, monkeypatch):
    tape, weight = record(strict=False), torch.ones(3, 1).as_subclass(Odd).requires_grad_()
    loss = (X @ weight).mean()
    if odd == "result":
        monkeypatch.setattr(Odd, "doubled", torch.autograd.grad)
    else:
        monkeypatch.setattr(Odd, "raising", torch.Tensor.numel if odd == "size" else torch.Tensor.is_leaf.__get__)
    with pytest.warns(UserWarning, match=warning):
        found = torch.autograd.grad(loss, weight)
    assert found[0].shape == (3, 1)
    monkeypatch.undo()
    tape.close()
