"""An optimizer's step that is compiled is heard, recorded and held as any other."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from barograph.errors import TrainingStopped

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore:.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def batches(count, bad=-1):
    draw = torch.Generator().manual_seed(1)
    for number in range(count):
        x = torch.randn(16, 4, generator=draw)
        if number == bad:
            x[3, 1] = math.nan
        yield x, torch.randint(0, 3, (16,), generator=draw)


def step_apart(model, optimizer):
    made = torch.compile(optimizer.step, backend="eager")

    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        made()

    return step


def all_in_one(model, optimizer):
    @torch.compile(backend="eager")
    def step(x, y):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def weights_after(how, count):
    model = net()
    step = how(model, torch.optim.Adam(model.parameters(), 1e-2))
    for x, y in batches(count):
        step(x, y)
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("how", [step_apart, all_in_one])
def test_its_update_is_withheld(hold, how):
    expected = weights_after(how, 2)
    torch.compiler.reset()
    tape, model = hold(), net()
    step = how(model, torch.optim.Adam(model.parameters(), 1e-2))
    *good, bad = batches(3, bad=2)
    for x, y in good:
        step(x, y)
    with pytest.raises(TrainingStopped, match="The update of step 2 was withheld"):
        step(*bad)
    assert all(map(torch.equal, model.parameters(), expected))
    assert set(tape.saved[0][1]["models"]) == {""}


@pytest.mark.parametrize("how", [step_apart, all_in_one])
def test_with_skip_the_training_goes_on(hold, how):
    tape, model = hold(then="skip", strict=False), net()
    step = how(model, torch.optim.Adam(model.parameters(), 1e-2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x, y in batches(5, bad=2):
            step(x, y)
    assert len(tape.saved) == 1
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
    assert tape.numbers() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", [step_apart, all_in_one])
def test_the_weights_are_the_same_with_and_without_us(record, how):
    expected = weights_after(how, 3)
    torch.compiler.reset()
    tape = record(preset="moments")
    found = weights_after(how, 3)
    assert tape.numbers() == [0, 1, 2]
    assert all(map(torch.equal, expected, found))


def test_where_one_graph_is_wanted_nothing_is_done_to_it(record):
    class Plain(torch.optim.Optimizer):
        """An optimizer that lets itself be compiled in one graph, as none of torch's does."""

        def __init__(self, parameters):
            super().__init__(parameters, {})

        def step(self):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.data.add_(parameter.grad, alpha=-0.1)

    record(preset="moments")
    model = net()
    optimizer = Plain(model.parameters())
    made = torch.compile(optimizer.step, backend="eager", fullgraph=True)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    x, y = next(batches(1))
    F.cross_entropy(model(x), y).backward()
    made()
    assert not torch.equal(before[0], model[0].weight)
