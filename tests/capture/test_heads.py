"""Which layers lie on parallel paths to a loss, as the graph tells."""

from __future__ import annotations

import torch
from torch import nn

from barograph.capture.torch.graph import Walk
from barograph.capture.torch.heads import Heads


def heads(losses, **layers):
    found = Heads()
    for number, loss in enumerate(losses):
        found.walked(list(Walk([loss.grad_fn], most_nodes=999, most_secs=9)), begins=not number)
    return found.by_layer({name: layer.weight for name, layer in layers.items()})


X = torch.ones(3, 4)


def test_an_actor_and_a_critic_have_heads_of_their_own():
    actor, critic = ([nn.Linear(4, 4), nn.Linear(4, 1)] for _ in range(2))
    policy, value = (path[1](path[0](X).tanh()).mean() for path in (actor, critic))
    layers = {"a0": actor[0], "a1": actor[1], "c0": critic[0], "c1": critic[1]}

    for losses in ([policy + value], [policy, value]):
        told = heads(losses, **layers)
        assert told["a0"] == told["a1"]
        assert told["c0"] == told["c1"]
        assert told["a0"] & told["c0"] == 0


def test_a_trunk_feeds_the_heads_that_share_it():
    trunk, left, right = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
    shared = trunk(X).relu()
    told = heads([left(shared).mean() + right(shared).mean()], trunk=trunk, left=left, right=right)

    assert told["trunk"] == told["left"] | told["right"]
    assert told["left"] & told["right"] == 0


def test_a_chain_has_one_head_and_nothing_is_told():
    first, last = nn.Linear(4, 4), nn.Linear(4, 1)
    assert heads([last(first(X).relu()).mean()], first=first, last=last) == {}


def test_two_towers_of_one_loss_have_no_parallel_losses():
    left, right = nn.Linear(4, 4), nn.Linear(4, 4)
    scale = nn.Parameter(torch.ones(()))
    loss = (left(X) @ right(X).T * scale).logsumexp(1).mean()
    assert heads([loss], left=left, right=right) == {}


def test_more_heads_than_a_number_holds_are_not_told():
    layers = {f"l{number}": nn.Linear(4, 1) for number in range(60)}
    assert heads([sum(layer(X).mean() for layer in layers.values())], **layers) == {}
