"""With the same seed, weights and random states are bit-identical with and without recording."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import barograph
from barograph.capture.presets import PRESETS

STEPS = 6
Outcome = tuple[dict[str, bytes], tuple[Any, ...]]


def images() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network with layers that draw random numbers or keep state during training."""
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.Dropout2d(0.3), nn.Flatten(),
        nn.LazyLinear(20), nn.RReLU(), nn.Dropout(0.5), nn.Linear(20, 4),
    )
    x, y = torch.randn(16, 1, 8, 8), torch.randint(0, 4, (16,))
    model(x)
    return model, x, y


def plainly(make_optimizer: Callable[..., torch.optim.Optimizer], **options: Any) -> nn.Module:
    model, x, y = images()
    optimizer = make_optimizer(model.parameters(), **options)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=bool(step % 2))
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        if step % 3 == 2:
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x), y)
            model.train()
    return model


def with_a_loader() -> nn.Module:
    model, x, y = images()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for batch, labels in DataLoader(TensorDataset(x, y), 4, shuffle=True):
        optimizer.zero_grad()
        nn.CrossEntropyLoss(label_smoothing=0.1)(model(batch + 0.1 * random.random()), labels).backward()
        for parameter in model.parameters():
            parameter.grad += float(np.random.normal(scale=1e-3))
        optimizer.step()
    return model


def in_mixed_precision() -> nn.Module:
    model, x, y = images()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return model


def in_parts_and_again() -> nn.Module:
    """Accumulated gradients, and recomputed activations."""
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True), 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch = torch.randn(8, 5, 16)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for part in batch.chunk(2):
            checkpoint(model, part, use_reentrant=False).square().mean().div(2).backward()
        optimizer.step()
    return model


def with_a_closure() -> nn.Module:
    model, x, y = nn.Linear(4, 2), torch.randn(32, 4), torch.randn(32, 2)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

    def again() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(again)
    return model


def with_gradients_that_are_never_reset() -> nn.Module:
    """Gradients that are never reset, a square root at zero, and a double softmax."""
    model, x, y = images()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        answer = model(x)
        (F.cross_entropy(answer.softmax(1), y) + (answer * 0).relu().sqrt().mean()).backward()
        optimizer.step()
    return model


def of_language() -> nn.Module:
    """Next-token prediction with a loader, and its evaluation."""
    model = nn.Sequential(nn.Embedding(20, 8), nn.Dropout(0.1), nn.Linear(8, 20))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(0, 20, (24, 9))
    for batch in DataLoader(tokens, 4, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten(), ignore_index=0).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            F.nll_loss(model(batch[:, :-1]).log_softmax(-1).movedim(-1, 1), batch[:, 1:])
        model.train()
    return model


def to_values() -> nn.Module:
    """A binary loss, a distance, and targets that the script changes before the step ends."""
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1)), torch.randn(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        target = (torch.rand(32, 1) > 0.5).float()
        optimizer.zero_grad()
        out = model(x)
        loss = F.binary_cross_entropy_with_logits(out, target) + F.huber_loss(out, target)
        loss.backward()
        target.mul_(step)
        optimizer.step()
    return model


TRAININGS: dict[str, Callable[[], nn.Module]] = {
    "sgd": functools.partial(plainly, torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": functools.partial(plainly, torch.optim.Adam, lr=1e-2, foreach=False),
    "adamw foreach": functools.partial(plainly, torch.optim.AdamW, lr=1e-2, foreach=True),
    "adamw fused": functools.partial(plainly, torch.optim.AdamW, lr=1e-2, fused=True, amsgrad=True),
    "loader": with_a_loader, "amp": in_mixed_precision, "parts": in_parts_and_again, "closure": with_a_closure,
    "kept": with_gradients_that_are_never_reset,
    "language": of_language, "values": to_values,
}


def outcome(name: str) -> Outcome:
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    model = TRAININGS[name]()
    state = {path: value.numpy().tobytes() for path, value in model.state_dict().items()}
    return state, (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())


@functools.cache
def outcome_alone(name: str) -> Outcome:
    return outcome(name)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", TRAININGS)
def test_weights_and_random_states_are_bit_identical(name: str, preset: str) -> None:
    weights, chance = outcome_alone(name)
    url = f"memory://weights/{name}/{preset}"
    with barograph.attach(to=url, preset=preset, budget=None, strict=True, watch=False):
        recorded_weights, recorded_chance = outcome(name)
    assert recorded_chance == chance
    assert [path for path in weights if recorded_weights[path] != weights[path]] == []
    # It was recorded indeed.
    assert len(barograph.open(url).series("loss:total")) >= 4
    assert preset != "everything" or len(barograph.open(url).keys(kind="fact")) >= 10


def test_another_seed_gives_other_weights() -> None:
    weights, _ = outcome_alone("sgd")
    torch.manual_seed(8)
    assert TRAININGS["sgd"]().state_dict()["0.weight"].numpy().tobytes() != weights["0.weight"]
