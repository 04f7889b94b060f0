"""The first operation that turned finite numbers into others is named, whatever came of it later."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from barograph.capsule.torch.blame import Blame


def blame(function, *tensors, names=None, backward=True):
    """Run a function of tensors forward and backward, and return what is to blame."""
    names = names or {}
    known = {tensor.untyped_storage().data_ptr(): name for name, tensor in names.items()}

    def name_of(tensor):
        return known.get(tensor.untyped_storage().data_ptr(), "")

    watching = Blame(lambda: "here", lambda _: "there", name_of)
    with torch.autograd.set_detect_anomaly(True, check_nan=False), watching:
        result = function(*tensors)
        if backward:
            result.sum().backward()
    return watching.verdict()


def leaf(*values, shape=None):
    return torch.tensor(values).reshape(shape or (-1,)).requires_grad_()


ZEROS = (0.0, 0.0, 1.0, 2.0)


@pytest.mark.parametrize(("function", "value", "name"), [
    (torch.log, leaf(*ZEROS), "log"),
    (torch.log2, leaf(*ZEROS), "log2"),
    (torch.log10, leaf(*ZEROS), "log10"),
    (torch.log1p, leaf(-1.0, 0.5), "log1p"),
    (lambda x: torch.log(-1 - x), leaf(*ZEROS), "log"),
    (lambda x: x / x, leaf(*ZEROS), "div"),
    (lambda x: 1 / x, leaf(*ZEROS), "reciprocal"),
    (torch.reciprocal, leaf(*ZEROS), "reciprocal"),
    (torch.rsqrt, leaf(*ZEROS), "rsqrt"),
    (lambda x: torch.sqrt(-1 - x), leaf(*ZEROS), "sqrt"),
    (lambda x: x ** -1.0, leaf(*ZEROS), "pow"),
    (lambda x: torch.exp(100 * x), leaf(*ZEROS), "exp"),
    (lambda x: torch.exp(1000 * x) / torch.exp(1000 * x).sum(), leaf(*ZEROS), "exp"),
    (lambda x: torch.log(torch.exp(1000 * x).sum()), leaf(*ZEROS), "exp"),
    (lambda x: torch.expm1(200 * x), leaf(*ZEROS), "expm1"),
    (lambda x: torch.cosh(200 * x), leaf(*ZEROS), "cosh"),
    (lambda x: x / x.std(), leaf(1.0, 1.0, 1.0), "div"),
    (lambda x: (x - x.mean()) / (x - x).norm(), leaf(1.0, 2.0), "div"),
    (lambda x: torch.acos(2 + x), leaf(*ZEROS), "acos"),
    (lambda x: torch.atanh(x), leaf(*ZEROS), "atanh"),
    (lambda x: F.cross_entropy(x[None], torch.tensor([-100])), leaf(*ZEROS), "nll_loss_forward"),
    (lambda x: torch.softmax(x + torch.full((4,), -math.inf), 0), leaf(*ZEROS), "_softmax"),
    (lambda x: (x.half() * 60000).sum(), leaf(*ZEROS), "mul"),
    (lambda x: torch.prod(x * 1e38), leaf(1.0, 2.0), "prod"),
    (lambda x: x.mean(0)[:0].mean(), leaf(*ZEROS, shape=(2, 2)), "mean"),
])
def test_what_goes_wrong_forward(function, value, name):
    found = blame(function, value, backward=False)
    assert (found.name, found.phase, found.module, found.handed_in) == (name, "forward", "here", False)
    assert all(not item.nan for item in found.inputs)
    assert any(item.nan or item.infinite for item in found.outputs)


@pytest.mark.parametrize(("function", "value", "of"), [
    (torch.sqrt, leaf(*ZEROS), "Sqrt"),
    (lambda x: x ** 0.5, leaf(*ZEROS), "Pow"),
    (lambda x: torch.where(x > 0, torch.sqrt(x), torch.zeros(())), leaf(*ZEROS), "Sqrt"),
    (lambda x: torch.where(x > 0, torch.log(x.clamp(min=0)), torch.zeros(())), leaf(*ZEROS), "Log"),
    (lambda x: torch.acos(x), leaf(1.0, 0.0), "Acos"),
    (lambda x: torch.asin(x), leaf(1.0, 0.0), "Asin"),
    (lambda x: x.abs() ** 0.1, leaf(*ZEROS), "Pow"),
    (lambda x: torch.atan2(x, x), leaf(0.0, 1.0), "Atan2"),
])
def test_what_goes_wrong_backward(function, value, of):
    found = blame(function, value)
    assert (found.phase, found.of, found.module) == ("backward", of, "there")
    assert Path(found.line.rpartition(":")[0]).name == "test_blame.py"


def test_the_line_of_the_script_is_named():
    def wrong(x):
        return torch.log(x)

    found = blame(wrong, leaf(*ZEROS))
    assert found.line == f"{__file__}:{wrong.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize("mask", [
    lambda x: x.masked_fill(torch.tensor([True, False, False, False]), -math.inf),
    lambda x: x + torch.tensor([-math.inf, 0.0, 0.0, 0.0]),
    lambda x: torch.where(torch.tensor([True, False, False, False]), -math.inf, x),
])
def test_a_mask_is_no_fault(mask):
    assert blame(lambda x: torch.softmax(mask(x), 0)[1:], leaf(*ZEROS)) is None
    found = blame(lambda x: torch.softmax(mask(x), 0)[1:] / (x[1:] * 0), leaf(*ZEROS))
    assert found.name == "div"


def test_what_was_handed_in_is_named():
    batch = torch.tensor([1.0, math.nan, 2.0])
    weight = leaf(1.0, math.inf, 3.0)
    for name, tensor in (("batch[0]", batch), ("fc.weight", weight)):
        found = blame(lambda x: (x.float() * 2).log(), tensor, names={name: tensor}, backward=False)
        assert (found.handed_in, found.module, found.name) == (True, name, "")
        assert (found.inputs[0].nan, found.inputs[0].infinite) == ((1, 0) if tensor is batch else (0, 1))


def test_a_weight_that_is_spoilt_in_place_is_an_operation_of_the_script():
    layer = nn.Linear(2, 2)

    def corrupt(x):
        with torch.no_grad():
            layer.weight.div_(layer.weight * 0)
        return layer(x)

    found = blame(corrupt, torch.ones(1, 2), names={"weight": layer.weight}, backward=False)
    assert (found.name, found.phase) == ("div", "forward")


def test_what_stays_finite_has_nobody_to_blame():
    layer = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 2))
    assert blame(lambda x: F.cross_entropy(layer(x), torch.tensor([0, 1])), torch.randn(2, 4)) is None


def test_memory_that_nobody_has_written_to_is_no_fault():
    # NaN from the start, as memory may be that is used again.
    assert blame(lambda x: torch.full_like(x, math.nan).fill_(1.0) * x, leaf(*ZEROS)) is None


def test_an_infinity_that_has_come_to_the_loss_is_blamed_before_what_it_spoils_backward():
    x = leaf(1e21, 1e21, shape=(1, 2))
    weight = leaf(1e19, -1e19, shape=(2, 1))
    watching = Blame(lambda: "here", lambda _: "there", lambda _: "")
    with torch.autograd.set_detect_anomaly(True, check_nan=False), watching:
        error = x + 0 * weight.sum()
        loss = (error * error).mean()
        watching.loss([loss])
        loss.backward()
    assert (watching.verdict().name, watching.verdict().phase) == ("mul", "forward")


def test_within_a_function_of_ones_own_its_line_is_named():
    class Halves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, upstream):
            (x,) = ctx.saved_tensors
            return upstream / x

    found = blame(Halves.apply, leaf(*ZEROS))
    assert (found.name, found.phase) == ("div", "backward")
    assert found.line == f"{__file__}:{Halves.backward.__code__.co_firstlineno + 3}"


def test_what_was_found_in_another_step_is_forgotten():
    watching = Blame(lambda: "", lambda _: "", lambda _: "")
    with watching:
        torch.log(torch.zeros(2) - 1)
        watching.forget()
    assert watching.verdict() is None
