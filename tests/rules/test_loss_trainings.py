"""All rules on real trainings whose losses are odd: right about the sick ones, silent on those that are meant so."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

from barograph.attaching import attach
from barograph.model.finding import Finding, Severity
from barograph.model.settings import Settings
from barograph.rules.registry import rules_from_settings
from barograph.store.urls import store_from_url
from barograph.watch.loop import Watcher

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Digits(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def digits() -> Digits:
    data = load_digits()
    return Digits(torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target))


def judged(url: str) -> list[Finding]:
    watcher = Watcher(store_from_url(url), rules_from_settings(Settings()), record=False)
    while not (poll := watcher.poll()).drained:
        assert poll.steps or poll.more
    assert watcher.problems == ()
    return list(watcher.findings)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss_of: Loss, *, batch: int = 64, steps: int = 120,
    data: Digits | None = None,
) -> list[Finding]:
    x, y = data or digits()
    url = f"memory://{secrets.token_hex(8)}"
    with attach(model, optimizer, to=url, watch=False, budget=None):
        for _ in range(steps):
            rows = torch.randint(0, len(x), (batch,))
            loss = loss_of(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return judged(url)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def cause(findings: list[Finding]) -> str:
    """Return the cause that one of the findings suspects most strongly."""
    return max((item for finding in findings for item in finding.causes), key=lambda item: item.weight).cause


def test_the_negative_of_a_loss_is_named_in_its_third_step() -> None:
    model = network()

    findings = train(model, torch.optim.Adam(model.parameters(), lr=1e-3), lambda o, y: -F.cross_entropy(o, y),
                     steps=20)

    (found,) = [item for item in findings if item.code == "L105"]
    assert (found.since_step, found.opened_step) == (0, 2)
    assert cause(findings) == "loss-sign"


def test_squares_that_run_away_are_named() -> None:
    x = torch.randn(1000, 8)
    y = x @ torch.randn(8, 1)
    model = nn.Linear(8, 1)

    findings = train(model, torch.optim.SGD(model.parameters(), lr=1.3), F.mse_loss, data=Digits(x, y))

    assert "L105" in {item.code for item in findings}
    assert cause(findings) == "learning-rate-too-high"


def test_steps_that_are_far_too_small_are_suspected_where_the_loss_stands() -> None:
    model = network()

    findings = train(model, torch.optim.Adam(model.parameters(), lr=1e-7), F.cross_entropy, steps=350)

    assert cause(findings) == "learning-rate-too-low"


def test_batches_of_one_are_well() -> None:
    model = network()

    assert train(model, torch.optim.SGD(model.parameters(), lr=0.02), F.cross_entropy, batch=1, steps=600) == []


def test_a_policy_whose_loss_rises_with_its_rewards_is_well() -> None:
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    url = f"memory://{secrets.token_hex(8)}"
    with attach(policy, optimizer, to=url, watch=False, budget=None):
        for step in range(400):
            states = torch.randn(64, 4)
            choice = torch.distributions.Categorical(logits=policy(states))
            actions = choice.sample()
            rewards = (actions == (states[:, 0] > 0)).float() - 0.5 + step / 50
            loss = -(choice.log_prob(actions) * rewards).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    assert judged(url) == []


def test_a_value_that_chases_its_own_targets_is_well() -> None:
    value, target = (nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(2))
    optimizer = torch.optim.Adam(value.parameters(), lr=1e-3)
    url = f"memory://{secrets.token_hex(8)}"
    with attach(value, optimizer, to=url, watch=False, budget=None):
        for step in range(400):
            if step % 20 == 0:
                target.load_state_dict(value.state_dict())
            states = torch.randn(64, 4)
            actions, rewards = torch.randint(0, 2, (64, 1)), (states[:, :1] > 0).float() + 1
            with torch.no_grad():
                wanted = rewards + 0.99 * target(states).max(1, keepdim=True).values
            loss = F.smooth_l1_loss(value(states).gather(1, actions), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    assert [item for item in judged(url) if item.severity in (Severity.BREAKING, Severity.COSTLY)] == []
