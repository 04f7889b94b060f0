"""The book of parameters: who learns, who is in which optimizer, who is reached by the loss."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from barograph.capture.torch import parameter_facts as torch_parameter_facts
from barograph.capture.torch import untrained as torch_untrained
from barograph.model.facts import Fact, fact
from barograph.model.key import Kind
from barograph.model.selection import Selection

FACTS = Selection(kinds=frozenset({Kind.FACT}))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.spare = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x, cut=False):
        hidden = self.one(x).relu()
        return self.two(hidden.detach() if cut else hidden)


def facts(record, **settings):
    return record(**{"preset": "free", "collections": (FACTS,), **settings})


def step(model, optimizer, cut=False, to_none=True):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    optimizer.zero_grad(set_to_none=to_none)
    F.cross_entropy(model(x, cut=cut), y).backward()
    optimizer.step()


def told(tape, name, at=-1, optimizer=None):
    """Return a fact as a whole, and what it names."""
    scalars = tape.steps(optimizer=optimizer)[at].scalars
    named = {key.path.partition("[")[2][:-1] for key in scalars if key.path.startswith(f"{name.value}[")}
    return scalars.get(fact(name)), named


def test_parameters_that_nobody_uses_are_unreached_and_without_gradient(record):
    tape = facts(record)
    model = Net()
    step(model, torch.optim.SGD(model.parameters(), 0.1))
    assert told(tape, Fact.PARAMETERS) == (6.0, set())
    assert told(tape, Fact.FROZEN) == (0.0, set())
    assert told(tape, Fact.WITHOUT_GRADIENT) == (2.0, {"spare.weight", "spare.bias"})
    assert told(tape, Fact.UNREACHED) == (2.0, {"spare.weight", "spare.bias"})
    assert told(tape, Fact.FOREIGN) == (0.0, set())


@pytest.mark.parametrize("to_none", [True, False])
def test_a_graph_that_is_cut_leaves_what_is_before_the_cut_unreached(record, to_none):
    tape = facts(record)
    model = Net()
    model.spare = nn.Identity()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer)
    step(model, optimizer, cut=True, to_none=to_none)
    assert told(tape, Fact.UNREACHED, 0) == (0.0, set())
    assert told(tape, Fact.UNREACHED, 1) == (2.0, {"one.weight", "one.bias"})
    assert told(tape, Fact.WITHOUT_GRADIENT, 1)[0] == (2.0 if to_none else 0.0)


def test_frozen_parameters_are_counted(record):
    tape = facts(record)
    model = Net()
    model.one.requires_grad_(False)
    step(model, torch.optim.SGD([item for item in model.parameters() if item.requires_grad], 0.1))
    assert told(tape, Fact.FROZEN) == (2.0, {"one.weight", "one.bias"})


def test_what_gets_a_gradient_and_is_in_no_optimizer_is_named_from_the_second_step(record):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.two.parameters(), 0.1)
    for _ in range(2):
        step(model, optimizer)
    assert told(tape, Fact.OUTSIDE_OPTIMIZER, 0) == (None, set())
    assert told(tape, Fact.OUTSIDE_OPTIMIZER, 1) == (2.0, {"one.weight", "one.bias"})


def test_parameters_of_a_second_optimizer_are_not_outside(record):
    tape = facts(record)
    model = Net()
    of_one, of_two = torch.optim.SGD(model.one.parameters(), 0.1), torch.optim.Adam(model.two.parameters(), 0.1)
    for _ in range(3):
        of_one.zero_grad()
        step(model, of_two)
        of_one.step()
    assert {told(tape, Fact.OUTSIDE_OPTIMIZER, at)[0] for at in range(6)} == {None, 0.0}
    assert {told(tape, Fact.UNREACHED, at)[0] for at in range(6)} == {0.0}


@pytest.mark.parametrize("alive", [True, False])
def test_an_optimizer_of_a_model_that_is_not_called_any_more_holds_foreign_parameters(record, alive):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    kept = model if alive else None
    model = copy.deepcopy(model)
    for _ in range(2):
        step(model, optimizer)
    assert told(tape, Fact.FOREIGN)[0] == 6.0
    assert told(tape, Fact.WITHOUT_GRADIENT)[0] == 6.0
    assert told(tape, Fact.UNREACHED)[0] == 6.0
    assert (kept is not None) is alive


def test_a_weight_that_no_module_holds_is_not_foreign_where_the_loss_uses_it(record):
    tape = facts(record)
    model = nn.Linear(4, 3)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([*model.parameters(), weight], 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)).square().mean() * weight.exp() - weight).sum().backward()
        optimizer.step()
    assert told(tape, Fact.FOREIGN) == (0.0, set())
    assert told(tape, Fact.UNREACHED) == (0.0, set())


def test_what_only_recomputation_reaches_has_a_gradient_and_is_not_unreached(record):
    tape = facts(record)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(8, 4, requires_grad=True)
    for _ in range(2):
        optimizer.zero_grad()
        checkpoint(model, x, use_reentrant=True).square().mean().backward()
        optimizer.step()
    assert told(tape, Fact.UNREACHED) == (0.0, set())


def test_a_second_backward_pass_reaches_the_rest(record):
    tape = facts(record)
    model = nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        for part in model:
            part(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    assert told(tape, Fact.UNREACHED) == (0.0, set())


@pytest.mark.parametrize(("place", "foreign"), [(None, True), (0, False), (1, False), (19999, False)])
def test_one_element_anywhere_makes_a_gradient_one(record, place, foreign):
    tape = facts(record)
    used, idle = nn.Linear(4, 3), nn.Linear(40, 500, bias=False)
    optimizer = torch.optim.SGD([*used.parameters(), idle.weight], 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        used(torch.randn(8, 4)).square().mean().backward()
        idle.weight.grad = torch.zeros(500, 40)
        if place is not None:
            idle.weight.grad.view(-1)[place] = 1e-30
        optimizer.step()
    assert told(tape, Fact.FOREIGN) == ((1.0, {"Linear#2.weight"}) if foreign else (0.0, set()))


def test_a_graph_that_is_too_large_to_walk_says_nothing(record, monkeypatch):
    monkeypatch.setattr(torch_parameter_facts, "_MOST_NODES", 3)
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(8):
        step(model, optimizer)
    assert [told(tape, Fact.UNREACHED, at) for at in range(8)] == [(None, set())] * 8
    assert told(tape, Fact.WITHOUT_GRADIENT)[0] == 2.0


def test_at_most_ten_are_named(record):
    tape = facts(record)
    model = nn.ModuleList([nn.Linear(4, 3) for _ in range(9)])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model[0](torch.randn(8, 4)).mean().backward()
    optimizer.step()
    count, named = told(tape, Fact.WITHOUT_GRADIENT)
    assert (count, len(named)) == (16.0, 10)


def test_each_group_says_its_decay_and_momentum_where_they_change(record):
    tape = facts(record)
    model = Net()
    groups = [{"params": model.one.parameters(), "weight_decay": 0.0}, {"params": model.two.parameters()}]
    optimizer = torch.optim.SGD(groups, 0.1, momentum=0.9, weight_decay=0.01)
    for number in range(3):
        optimizer.param_groups[1]["weight_decay"] = 0.01 if number < 2 else 0.5
        step(model, optimizer)
    decay = [(told(tape, Fact.WEIGHT_DECAY, at)[1]) for at in range(3)]
    assert decay == [{"group0", "group1"}, set(), {"group1"}]
    assert tape.scalar("fact:momentum[group0]", 0) == 0.9
    assert tape.scalar("fact:weight_decay[group1]", 2) == 0.5


@pytest.mark.parametrize(("kind", "momentum", "decoupled"), [
    (torch.optim.AdamW, 0.9, 1.0), (torch.optim.Adam, 0.9, 0.0), (torch.optim.SGD, 0.0, 0.0),
    (torch.optim.RMSprop, 0.0, 0.0), (torch.optim.Adagrad, None, 0.0), (torch.optim.Adafactor, None, 1.0),
])
def test_what_weight_decay_is_applied_to(record, kind, momentum, decoupled):
    tape = facts(record)
    model = Net()
    step(model, kind(model.parameters(), 0.01))
    assert told(tape, Fact.DECOUPLED)[0] == decoupled
    assert tape.steps()[0].scalars.get(fact(Fact.MOMENTUM, "group0")) == momentum


@pytest.mark.parametrize("scheduled", [False, True])
def test_an_optimizer_made_anew_is_counted(record, scheduled):
    tape = facts(record)
    model = Net()
    for _ in range(4):
        # A scheduler and its optimizer hold each other: what is dropped lives on until it is collected.
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3) if scheduled else None
        step(model, optimizer)
        step(model, optimizer)
        assert scheduled is (scheduler is not None)
    assert [told(tape, Fact.OPTIMIZERS_MADE, at)[0] for at in range(8)] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_optimizers_that_take_turns_are_not_made_anew(record):
    tape = facts(record)
    model = Net()
    first, second = torch.optim.SGD(model.parameters(), 0.1), torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(3):
        step(model, first)
        step(model, second)
    assert [told(tape, Fact.OPTIMIZERS_MADE, at)[0] for at in range(6)] == [1, 2, 1, 1, 1, 1]


def test_deterministic_algorithms_are_a_fact(record):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer)
    torch.use_deterministic_algorithms(True)
    try:
        step(model, optimizer)
    finally:
        torch.use_deterministic_algorithms(False)
    assert [told(tape, Fact.DETERMINISTIC, at)[0] for at in range(2)] == [0.0, 1.0]


def test_with_a_closure_the_book_is_that_of_its_last_run(record):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.LBFGS([*model.one.parameters(), *model.two.parameters()], 0.01, max_iter=2)
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))

    def again():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    optimizer.step(again)
    assert told(tape, Fact.WITHOUT_GRADIENT) == (0.0, set())
    assert told(tape, Fact.UNREACHED) == (0.0, set())


def test_a_compiled_model_reaches_its_parameters(record):
    tape = facts(record)
    model = torch.compile(Net(), backend="aot_eager")
    optimizer = torch.optim.SGD([*model.one.parameters(), *model.two.parameters()], 0.1)
    for _ in range(2):
        step(model, optimizer)
    assert told(tape, Fact.UNREACHED) == (0.0, set())
    assert told(tape, Fact.FOREIGN) == (0.0, set())


def test_looking_for_facts_keeps_no_graph_and_no_parameter_alive(record):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model, optimizer)
    kept = torch.ones(3, requires_grad=True)

    class Keeper(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.mark = kept
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Gone:
        alive = 0

        def __init__(self):
            Gone.alive += 1

        def __del__(self):
            Gone.alive -= 1

    gone = Gone()
    loss = (Keeper.apply(kept) + torch.log(model(torch.randn(4, 4)).exp()).sum()).sum()
    loss.grad_fn.metadata["mark"] = gone
    loss.backward()
    optimizer.step()
    del loss, gone
    gc.collect()
    assert Gone.alive == 0
    assert len(tape.steps()) == 2


class Listed(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.one, self.layers, self.two = nn.Linear(4, 8), layers, nn.Linear(8, 3)

    def forward(self, x, cut=False):
        x = self.one(x).relu()
        for layer in self.layers:
            x = layer(x).relu()
        return self.two(x)


def test_layers_in_a_plain_list_are_of_no_model_and_in_no_optimizer(record):
    tape = facts(record)
    model = Listed([nn.Linear(8, 8), nn.Linear(8, 8)])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        step(model, optimizer)
    # Whether anybody changes them is known from the second step on.
    assert told(tape, Fact.UNREGISTERED, 0) == (0.0, set())
    for at in (1, 2):
        assert told(tape, Fact.UNREGISTERED, at) == (4.0, {"8x8", "8"})
    assert tape.steps()[-1].scalars[fact(Fact.UNREGISTERED, "8x8")] == 2.0
    assert told(tape, Fact.OUTSIDE_OPTIMIZER) == (0.0, set())


def test_layers_in_a_module_list_and_those_that_another_optimizer_moves_are_not_unregistered(record):
    tape = facts(record)
    hidden = [nn.Linear(8, 8)]
    for model, more in ((Listed(nn.ModuleList([nn.Linear(8, 8)])), []), (Listed(hidden), list(hidden[0].parameters()))):
        optimizer = torch.optim.SGD([*model.parameters(), *more], 0.1)
        for _ in range(3):
            step(model, optimizer)
        assert told(tape, Fact.UNREGISTERED) == (0.0, set())


@pytest.mark.parametrize("by_data", [False, True])
def test_a_parameter_that_the_script_changes_by_itself_is_not_unregistered(record, by_data):
    tape = facts(record)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    noise = nn.Parameter(torch.zeros(16, 4))
    for _ in range(4):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(16, 4) + noise), torch.randint(0, 3, (16,))).backward()
        with torch.no_grad():
            (noise.data if by_data else noise).add_(0.1 * noise.grad.sign())
        optimizer.step()
        assert told(tape, Fact.UNREGISTERED) == (0.0, set())


def test_an_unregistered_parameter_is_told_of_where_the_graph_is_walked_no_more(record, monkeypatch):
    monkeypatch.setattr(torch_parameter_facts, "_LATER_NODES", 0)
    tape = facts(record)
    model = Listed([nn.Linear(8, 8)])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(8):
        step(model, optimizer)
    assert told(tape, Fact.UNREGISTERED) == (2.0, {"8x8", "8"})
    model.layers.clear()
    gc.collect()
    step(model, optimizer)
    assert told(tape, Fact.UNREGISTERED) == (0.0, set())


class Bodied(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.two = body.requires_grad_(False), nn.Linear(512, 3)

    def forward(self, x, cut=False):
        return self.two(self.body(x).relu())


def test_a_frozen_layer_that_was_never_trained_is_untrained(record):
    tape = facts(record)
    model = Bodied(nn.Linear(4, 512))
    optimizer = torch.optim.SGD(model.two.parameters(), 0.1)
    for _ in range(3):
        step(model, optimizer)
    # Whether anybody changes it is known from the second step on.
    assert told(tape, Fact.UNTRAINED, 0) == (0.0, set())
    for at in (1, 2):
        assert told(tape, Fact.FROZEN, at)[0] == 2.0
        assert told(tape, Fact.UNTRAINED, at) == (1.0, {"body.weight"})


@pytest.mark.parametrize("by_data", [False, True])
def test_a_frozen_layer_that_follows_another_is_not_untrained(record, by_data):
    tape = facts(record)
    model, fast = Bodied(nn.Linear(4, 512)), nn.Linear(4, 512)
    optimizer = torch.optim.SGD(model.two.parameters(), 0.1)
    for _ in range(4):
        step(model, optimizer)
        with torch.no_grad():
            (model.body.weight.data if by_data else model.body.weight).lerp_(fast.weight, 0.01)
        assert told(tape, Fact.UNTRAINED) == (0.0, set())


def test_a_body_that_was_trained_before_it_was_frozen_is_not_untrained(record):
    body = nn.Linear(4, 512)
    model = nn.Sequential(body, nn.ReLU(), nn.Linear(512, 3))
    trained = torch.optim.SGD(model.parameters(), 0.5)
    for _ in range(20):
        trained.zero_grad()
        F.cross_entropy(model(torch.randn(16, 4)), torch.randint(0, 3, (16,))).backward()
        trained.step()
    del model, trained
    gc.collect()
    tape = facts(record)
    frozen = Bodied(body)
    optimizer = torch.optim.SGD(frozen.two.parameters(), 0.1)
    for _ in range(3):
        step(frozen, optimizer)
    assert told(tape, Fact.FROZEN)[0] == 2.0
    assert told(tape, Fact.UNTRAINED) == (0.0, set())


def test_of_a_large_frozen_model_a_part_is_looked_at(record, monkeypatch):
    looked_at = []
    monkeypatch.setattr(torch_untrained, "is_as_drawn", lambda values, *rest, **more: looked_at.append(values.size))
    tape = facts(record)
    model = Bodied(nn.Sequential(nn.Linear(4, 512), *(nn.Linear(512, 512) for _ in range(80)), nn.Linear(512, 512)))
    model.body[0].weight.data = model.body[0].weight.data.t().contiguous().t()
    optimizer = torch.optim.SGD(model.two.parameters(), 0.1)
    for _ in range(3):
        step(model, optimizer)
    assert told(tape, Fact.UNTRAINED) == (0.0, set())
    assert looked_at == [2048] + [4096] * 63


def test_a_frozen_layer_that_was_put_in_after_a_training_is_known_with_the_next_optimizer(record):
    tape = facts(record)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 3))

    def train():
        optimizer = torch.optim.SGD([item for item in model.parameters() if item.requires_grad], 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(16, 4)), torch.randint(0, 3, (16,))).backward()
            optimizer.step()

    train()
    assert told(tape, Fact.FROZEN) == (0.0, set())
    model[2], model[4] = nn.Linear(8, 512).requires_grad_(False), nn.Linear(512, 3).requires_grad_(False)
    train()
    assert told(tape, Fact.PARAMETERS) == (6.0, set())
    assert told(tape, Fact.FROZEN) == (4.0, {"2.weight", "2.bias", "4.weight", "4.bias"})
    assert told(tape, Fact.UNTRAINED) == (2.0, {"2.weight", "4.weight"})
