"""Scripts that move their weights themselves make steps, without an optimizer of torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from barograph.model.step import Mode

X = torch.linspace(-1, 1, 24).reshape(8, 3)
LR = 0.5


def network():
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def backward(model, x=X):
    F.mse_loss(model(x), torch.ones(len(x), 1)).backward()


def in_place(model):
    with torch.no_grad():
        for item in model.parameters():
            item -= LR * item.grad
            item.grad = None


def through_data(model):
    for item in model.parameters():
        item.data.add_(-LR * item.grad)
    model.zero_grad()


def with_new_data(model):
    for item in model.parameters():
        item.data = item.data - LR * item.grad
        item.grad.zero_()


def copied_in(model):
    with torch.no_grad():
        for item in model.parameters():
            item.copy_(item - LR * item.grad)
    model.zero_grad(set_to_none=False)


@pytest.mark.parametrize("move", [in_place, through_data, with_new_data, copied_in])
def test_each_move_is_a_step_with_its_gradient_weight_and_update(record, move):
    tape, model = record(preset="everything"), network()
    weights, gradients = [], []
    for _ in range(3):
        backward(model)
        gradients.append(model.weight.grad.clone())
        move(model)
        weights.append(model.weight.detach().clone())
    tape.close()
    assert tape.numbers() == [0, 1, 2]
    for at in range(3):
        assert tape.summary("weight:weight", at).l2 == pytest.approx(float(weights[at].norm()), rel=1e-5)
        assert tape.summary("gradient:weight", at).l2 == pytest.approx(float(gradients[at].norm()), rel=1e-5)
        assert tape.summary("update:weight", at).l2 == pytest.approx(LR * float(gradients[at].norm()), rel=1e-4)
        assert "loss:total" in tape.names(at)


def test_micro_batches_are_one_step_with_the_whole_gradient(record):
    tape, model = record(preset="everything"), network()
    for _ in range(2):
        for part in X.chunk(2):
            backward(model, part)
        whole = model.weight.grad.clone()
        in_place(model)
    tape.close()
    assert tape.numbers() == [0, 1]
    assert tape.summary("gradient:weight").l2 == pytest.approx(float(whole.norm()), rel=1e-5)


def test_an_evaluation_comes_after_the_step_before_it(record):
    tape, model = record(), network()
    for _ in range(2):
        backward(model)
        in_place(model)
        model.eval()
        with torch.no_grad():
            F.mse_loss(model(X), torch.ones(8, 1))
        model.train()
    tape.close()
    assert (tape.numbers(), tape.numbers(Mode.EVAL)) == ([0, 1], [1, 2])


@pytest.mark.parametrize("through", ["no_grad", "data", "new tensors"])
def test_tensors_without_a_module_make_steps(record, through):
    tape, weight, after = record(), torch.ones(3, 1, requires_grad=True), []
    for _ in range(3):
        F.mse_loss(X @ weight, torch.ones(8, 1)).backward()
        if through == "no_grad":
            with torch.no_grad():
                weight -= LR * weight.grad
                weight.grad = None
        elif through == "data":
            weight.data -= LR * weight.grad
            weight.grad.zero_()
        else:
            weight = (weight - LR * weight.grad).detach().requires_grad_()
        after.append(float(weight.detach().norm()))
    tape.close()
    assert tape.numbers() == [0, 1, 2]
    assert [tape.summary("weight:parameter0", at).l2 for at in (0, 1)] == pytest.approx(after[:2], rel=1e-5)
    if through == "new tensors":  # which tensors the last step has made, no pass tells any more
        assert "weight:parameter0" not in tape.names(2)


def test_backward_alone_is_no_step_and_the_coverage_says_what_to_do(record):
    tape, model = record(), network()
    for _ in range(3):
        backward(model)
    tape.close()
    assert tape.numbers() == []
    (reason,) = (text for text in tape.coverage.reasons if text.startswith("no training step was recorded"))
    assert "backward() ran 3 times" in reason
    assert "run.step(loss)" in reason


def test_where_an_optimizer_makes_the_steps_it_makes_all_of_them(record):
    tape, model = record(), network()
    delta, optimizer = torch.zeros(8, 3, requires_grad=True), torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for _ in range(3):  # an adversarial example, moved by hand
            backward(model, X + delta)
            delta.data.add_(delta.grad.sign(), alpha=0.01)
            delta.grad.zero_()
        optimizer.step()
        optimizer.zero_grad()
    tape.close()
    assert tape.numbers() == [0, 1]


def test_an_optimizer_that_is_made_after_a_backward_pass_is_the_only_one(record):
    tape, model = record(), network()
    backward(model)
    model.zero_grad()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        backward(model)
        optimizer.step()
        optimizer.zero_grad()
    tape.close()
    assert [(records.step.number, records.step.optimizer) for records in tape.steps()] == [(0, ""), (1, "")]


def test_an_optimizer_goes_on_with_the_steps_that_were_made_by_hand(record):
    tape, model = record(), network()
    for _ in range(2):
        backward(model)
        in_place(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        backward(model)
        optimizer.step()
        optimizer.zero_grad()
    tape.close()
    assert [(records.step.number, records.step.optimizer) for records in tape.steps()] == [
        (0, ""), (1, ""), (2, ""), (3, "")]


def test_weights_are_the_same_to_the_last_bit_with_and_without_us(record):
    def trained():
        model = network()
        for _ in range(5):
            backward(model)
            in_place(model)
        return model.weight.detach().clone()

    bare = trained()
    record(preset="everything")
    assert torch.equal(bare, trained())


@pytest.mark.parametrize("inputs", ["list", "generator", "dictionary"])
def test_gradients_that_are_returned_and_subtracted_make_steps(record, inputs):
    tape, model = record(preset="everything"), network()
    weights, gradients = [], []
    for _ in range(3):
        loss = F.mse_loss(model(X), torch.ones(8, 1))
        if inputs == "dictionary":
            found = tuple(torch.autograd.grad(loss, dict(model.named_parameters())).values())
        else:
            found = torch.autograd.grad(loss, list(model.parameters()) if inputs == "list" else model.parameters())
        gradients.append(found[0].clone())
        with torch.no_grad():
            for item, gradient in zip(model.parameters(), found, strict=True):
                item.sub_(LR * gradient)
        weights.append(model.weight.detach().clone())
    tape.close()
    assert tape.numbers() == [0, 1, 2]
    for at in range(3):
        assert tape.summary("weight:weight", at).l2 == pytest.approx(float(weights[at].norm()), rel=1e-5)
        assert tape.summary("gradient:weight", at).l2 == pytest.approx(float(gradients[at].norm()), rel=1e-5)
        assert "loss:total" in tape.names(at)


def test_returned_gradients_of_tensors_without_a_module_make_steps(record):
    tape, weight = record(), torch.ones(3, 1, requires_grad=True)
    for _ in range(3):
        (gradient,) = torch.autograd.grad(F.mse_loss(X @ weight, torch.ones(8, 1)), weight)
        weight.data -= LR * gradient
    tape.close()
    assert tape.numbers() == [0, 1, 2]


@pytest.mark.parametrize("why", ["an optimizer", "no weights", "a graph"])
def test_other_returned_gradients_make_no_step(record, why):
    tape, model = record(), network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1) if why == "an optimizer" else None
    x = X.clone().requires_grad_()
    for _ in range(2):
        wanted = [x] if why == "no weights" else list(model.parameters())
        gradients = torch.autograd.grad(model(x).sum(), wanted, create_graph=why == "a graph")
        with torch.no_grad():
            for item, gradient in zip(wanted, gradients, strict=True):
                item.add_(0.01 * gradient)
    if optimizer is not None:
        optimizer.zero_grad()
        backward(model)
        optimizer.step()
    tape.close()
    assert tape.numbers() == ([0] if optimizer is not None else [])
