"""Whether weights lie as they were drawn: of the layers of torch, before and after a little training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from barograph.measures.drawn import is_as_drawn, usual_bounds


def looks_drawn(parameter: torch.Tensor) -> bool:
    return is_as_drawn(parameter.detach().numpy(), usual_bounds(parameter.shape, outputs_first=True), precision=1e-6)


LAYERS = {
    "linear": lambda: nn.Linear(24, 48).weight,
    "convolution": lambda: nn.Conv2d(8, 16, 3).weight,
    "transposed": lambda: nn.ConvTranspose1d(32, 32, 3).weight,
    "grouped": lambda: nn.Conv2d(32, 32, 3, groups=4).weight,
    "lstm": lambda: nn.LSTM(24, 16).weight_ih_l0,
    "gru": lambda: nn.GRU(24, 16).weight_ih_l0,
    "attention": lambda: nn.MultiheadAttention(32, 4).in_proj_weight,
    "glorot": lambda: nn.init.xavier_uniform_(torch.empty(30, 50)),
    "he": lambda: nn.init.kaiming_uniform_(torch.empty(30, 50)),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_lies_as_it_was_drawn_until_it_is_trained(layer: str) -> None:
    torch.manual_seed(0)
    for _ in range(30):
        weight = LAYERS[layer]()
        assert looks_drawn(weight)
        with torch.no_grad():
            weight += 0.1 * weight.std() * torch.randn_like(weight)
        assert not looks_drawn(weight)


@pytest.mark.parametrize("make", [
    lambda: torch.randn(64, 64) / 8, lambda: torch.zeros(64, 64), lambda: torch.full((64, 64), 0.125),
    lambda: torch.eye(64), lambda: nn.init.orthogonal_(torch.empty(64, 64)),
    lambda: torch.randint(0, 2, (64, 64)) / 4.0 - 0.125, lambda: torch.empty(64, 64).uniform_(-0.25, 0.25) * 0.9,
    lambda: torch.empty(64, 64).uniform_(-0.125, 0.125).fill_diagonal_(math.nan), lambda: torch.empty(0, 64),
    lambda: torch.empty(4096).uniform_(-1, 1),
])
def test_what_was_made_otherwise_is_not_said_to(make) -> None:
    torch.manual_seed(0)
    assert not looks_drawn(make())


def test_too_few_numbers_say_nothing() -> None:
    draw = np.random.default_rng(0)
    assert is_as_drawn(draw.uniform(-1, 1, 1024), [1.0])
    assert not is_as_drawn(draw.uniform(-1, 1, 1023), [1.0])


def test_rounding_may_pass_a_bound() -> None:
    draw = np.random.default_rng(0)
    values = torch.tensor(draw.uniform(-1 / 3, 1 / 3, 10_000)).bfloat16().double().numpy()
    values[0] = torch.tensor(1 / 3).bfloat16().item()
    assert values[0] > 1 / 3
    assert not is_as_drawn(values, [1 / 3])
    assert is_as_drawn(values, [1 / 3], precision=2 * torch.finfo(torch.bfloat16).eps)


def test_keras_puts_the_outputs_last() -> None:
    assert usual_bounds((3, 3, 4, 12), outputs_first=False) == usual_bounds((12, 4, 3, 3), outputs_first=True)
    assert usual_bounds((9,), outputs_first=False) == []
