"""The whole suite of rules on real trainings: silent on healthy ones, and right about sick ones.

Each model is trained on the digits that ship inside scikit-learn, or on text, and recorded as any user's
script would be; then all rules judge the record.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

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

Batch = tuple[torch.Tensor, torch.Tensor]
Change = Callable[[int, Batch], Batch]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def mlp(
    *widths: int, act: type[nn.Module] = nn.ReLU, more: Callable[[int], list[nn.Module]] = lambda _: []
) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, width in zip((64, *widths), widths, strict=False):
        layers += [nn.Linear(before, width), *more(width), act()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 10))


class Convolutional(nn.Module):
    """Two convolutions, with functional activations."""

    def __init__(self, *, norm: bool) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.norm1, self.norm2 = (nn.BatchNorm2d(16), nn.BatchNorm2d(32)) if norm else (nn.Identity(), nn.Identity())
        self.fc1, self.fc2 = nn.Linear(128, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x.view(-1, 1, 8, 8)))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(2, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.out(F.gelu(self.fc(self.norm2(x))))


class Transformer(nn.Module):
    """A small GPT with tied weights."""

    def __init__(self, vocabulary: int, context: int, width: int = 48) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, 0.0, 0.02)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places(torch.arange(x.shape[1])))))


def digits() -> tuple[Batch, Batch]:
    data = load_digits()
    x, y = torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return (x[order[:1400]], y[order[:1400]]), (x[order[1400:]], y[order[1400:]])


def judged(url: str) -> list[Finding]:
    watcher = Watcher(store_from_url(url), rules_from_settings(Settings()), record=False)
    while not (poll := watcher.poll()).drained:
        assert poll.steps or poll.more
    assert watcher.problems == ()
    return list(watcher.findings)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, *, steps: int = 250, samples: int = 1400,
    change: Change = lambda _, batch: batch, schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
    labels: torch.Tensor | None = None,
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = nn.CrossEntropyLoss(),  # noqa: B008
) -> list[Finding]:
    """Train on digits, evaluating every 50 steps, and return what the rules found."""
    torch.manual_seed(1)
    (x, y), held_out = digits()
    y = y if labels is None else labels
    url = f"memory://{secrets.token_hex(8)}"
    with attach(model, optimizer, to=url, watch=False, budget=None):
        for step in range(steps):
            model.train()
            rows = torch.randint(0, samples, (64,))
            inputs, targets = change(step, (x[rows], y[rows]))
            loss = loss_of(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
            if step % 50 == 49:
                model.eval()
                with torch.no_grad():
                    loss_of(model(held_out[0]), held_out[1])
    return judged(url)


def warmed_up(optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """Return the usual schedule: up from 0, then down a cosine to 0."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / 50, 1.0) * 0.5 * (1 + math.cos(math.pi * min(step / steps, 1.0)))
    )


def codes(findings: list[Finding]) -> set[str]:
    return {finding.code for finding in findings}


def test_a_plain_network_with_sgd_is_well() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)

    assert train(model, torch.optim.SGD(model.parameters(), lr=0.1)) == []


def test_a_convolutional_network_with_adam_is_well() -> None:
    torch.manual_seed(0)
    model = Convolutional(norm=False)

    assert train(model, torch.optim.Adam(model.parameters(), lr=1e-3)) == []


def test_batch_normalisation_with_momentum_is_well() -> None:
    torch.manual_seed(0)
    model = Convolutional(norm=True)

    assert train(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)) == []


def test_dropout_weight_decay_and_warm_up_are_well() -> None:
    torch.manual_seed(0)
    model = mlp(256, 256, more=lambda _: [nn.Dropout(0.3)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)

    assert train(model, optimizer, schedule=warmed_up(optimizer, 250)) == []


def test_tanh_layers_with_sgd_are_well() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128, 128, act=nn.Tanh)

    assert train(model, torch.optim.SGD(model.parameters(), lr=0.1)) == []


def test_a_small_gpt_with_adamw_clipping_and_warm_up_is_well() -> None:
    torch.manual_seed(0)
    text = Path(__file__).read_text(encoding="utf-8") * 3
    letters = sorted(set(text))
    tokens = torch.tensor([letters.index(letter) for letter in text])
    model = Transformer(len(letters), 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = warmed_up(optimizer, 200)
    url = f"memory://{secrets.token_hex(8)}"
    with attach(model, optimizer, to=url, watch=False, budget=None):
        for _ in range(200):
            starts = torch.randint(0, len(tokens) - 33, (16,))
            batch = torch.stack([tokens[start : start + 33] for start in starts.tolist()])
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()

    assert judged(url) == []


def frozen(module: nn.Module, *, trained: bool) -> nn.Module:
    """Return a module that does not learn, with weights as a training before would have left them, or as drawn."""
    with torch.no_grad():
        for parameter in module.requires_grad_(False).parameters():
            parameter += trained * 0.2 * parameter.std() * torch.randn_like(parameter)
    return module


@pytest.mark.parametrize("trained", [True, False])
def test_a_frozen_body_is_a_fault_where_it_was_never_trained(trained: bool) -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)
    frozen(model[:4], trained=trained)

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.5))

    assert [(item.code, item.subject, item.severity) for item in findings] == (
        [] if trained else [("P108", "untrained", Severity.DOUBTFUL)])


def test_a_chain_of_sigmoids_vanishes() -> None:
    torch.manual_seed(0)
    model = mlp(*[64] * 6, act=nn.Sigmoid)

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=450)

    assert {"G101", "L101"} <= codes(findings)
    (vanishing,) = [finding for finding in findings if finding.code == "G101"]
    assert (vanishing.since_step, vanishing.opened_step) == (0, 20)
    assert "6 Sigmoid" in vanishing.remedy


def test_a_learning_rate_far_too_high_takes_steps_far_too_large() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)

    findings = train(model, torch.optim.Adam(model.parameters(), lr=1.0), steps=60)

    (large,) = [finding for finding in findings if finding.code == "W101"]
    assert (large.since_step, large.opened_step) == (0, 1)
    assert "Lower the learning rate from 1 to 0.03" in large.remedy


def test_a_learning_rate_far_too_low_takes_steps_far_too_small() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)

    findings = train(model, torch.optim.SGD(model.parameters(), lr=1e-6), steps=350)

    assert codes(findings) == {"W101", "L101", "L108"}


def test_biases_far_below_zero_kill_the_units() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)
    for layer in (model[0], model[2]):
        nn.init.constant_(layer.bias, -5.0)

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.1))

    assert {finding.subject for finding in findings if finding.code == "A101"} == {"1", "3"}


def test_weights_too_large_saturate_tanh() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128, 128, act=nn.Tanh)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, 30.0)

    assert "A102" in codes(train(model, torch.optim.SGD(model.parameters(), lr=0.01)))


def test_constant_weights_make_equal_units() -> None:
    torch.manual_seed(0)
    model = mlp(64, 64)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.01)

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=60)

    assert "equal units" in {finding.subject for finding in findings if finding.code == "W102"}


def test_a_layer_in_no_optimizer_is_frozen() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)

    findings = train(model, torch.optim.SGD([*model[0].parameters(), *model[4].parameters()], lr=0.1), steps=60)

    assert codes(findings) == {"P108", "W104"}
    (frozen,) = [finding for finding in findings if finding.code == "W104"]
    assert (frozen.subject, frozen.since_step, frozen.opened_step) == ("not moved", 1, 10)
    assert {item.key.path for item in frozen.evidence if item.key} == {"2.weight", "2.bias"}


def test_shuffled_labels_teach_nothing() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.02), steps=500,
                     labels=torch.randint(0, 10, (1400,)))

    assert codes(findings) == {"L101", "L108"}
    (found,) = [finding for finding in findings if finding.code == "L101"]
    assert (found.subject, found.since_step) == ("does not fall", 0)


def test_softmax_before_a_loss_that_takes_logits_teaches_nothing_at_first() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(mlp(128, 128), nn.Softmax(1))

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.01))

    assert "L101" in codes(findings)


class Adapted(nn.Module):
    """A frozen layer and what is learnt beside it, begun at zero."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.base = frozen(nn.Linear(before, after), trained=True)
        self.down, self.up = nn.Linear(before, 8, bias=False), nn.Linear(8, after, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


def test_low_rank_adapters_with_a_long_warm_up_are_well() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Adapted(64, 64), nn.ReLU(), Adapted(64, 64), nn.ReLU(), Adapted(64, 10))
    optimizer = torch.optim.AdamW([item for item in model.parameters() if item.requires_grad], lr=2e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 400))

    assert train(model, optimizer, steps=450, schedule=schedule) == []


class Scaled(nn.Module):
    """A residual block that begins as good as not there, as in CaiT and ConvNeXt (LayerScale)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gamma * self.down(F.gelu(self.up(self.norm(x))))


@pytest.mark.parametrize("warm_up", [1, 300])
def test_blocks_that_begin_at_nearly_zero_on_purpose_are_well(warm_up: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), Scaled(32), Scaled(32), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warm_up))

    assert train(model, optimizer, steps=350, schedule=schedule) == []


def test_weights_far_too_large_make_outputs_grow() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128, 128)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, 1.0)

    findings = train(model, torch.optim.Adam(model.parameters(), lr=1e-3), steps=30)

    assert "growing outputs" in {finding.subject for finding in findings}


class Towers(nn.Module):
    """One part for inputs on a small scale, one for raw numbers beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.table = nn.Linear(32, 64), nn.Linear(32, 64)
        self.mix, self.head = nn.Linear(128, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image, table = self.image(0.1 * x[:, :32]), self.table(1000.0 * x[:, 32:])
        return self.head(F.relu(self.mix(F.relu(torch.cat([image, table], 1)))))


def test_towers_side_by_side_on_scales_of_their_own_do_not_grow() -> None:
    torch.manual_seed(0)
    model = Towers()

    findings = train(model, torch.optim.Adam(model.parameters(), lr=1e-4), steps=30)

    assert "W102" not in codes(findings)


def test_two_hundred_samples_learnt_by_heart_overfit() -> None:
    torch.manual_seed(0)
    model = mlp(256, 256)

    findings = train(model, torch.optim.Adam(model.parameters(), lr=1e-3), steps=400, samples=200,
                     labels=torch.randint(0, 10, (1400,)))

    assert codes(findings) == {"L102"}


def test_a_training_set_that_is_evaluated_beside_the_validation_set_can_be_kept_apart() -> None:
    torch.manual_seed(0)
    model = mlp(64)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    (x, y), held_out = digits()
    x, y = x[:60], torch.randint(0, 10, (60,))
    url = f"memory://{secrets.token_hex(8)}"
    validations = {}
    with attach(model, optimizer, to=url, watch=False, budget=None) as run:
        for step in range(200):
            if step % 20 == 0:
                model.eval()
                with torch.no_grad(), run.mode("predict"):
                    F.cross_entropy(model(x), y)
                with torch.no_grad(), run.mode("eval"):
                    validations[step] = F.cross_entropy(model(held_out[0]), held_out[1]).item()
                model.train()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    (found,) = [item for item in judged(url) if item.code == "L102"]
    assert found.evidence[0].value == pytest.approx(validations[found.opened_step])


def test_a_batch_of_nan_is_named_with_its_step() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)

    def spoil(step: int, batch: Batch) -> Batch:
        return (batch[0] * math.nan, batch[1]) if step == 40 else batch

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=60, change=spoil)

    assert codes(findings) == {"N101", "N104"}
    (found,) = [finding for finding in findings if finding.code == "N101"]
    assert found.since_step == 40
    assert found.remedy.startswith("Check the batch of step 40")


def test_a_batch_a_hundred_times_too_large_is_a_spike() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)

    def spoil(step: int, batch: Batch) -> Batch:
        return (batch[0] * 100, batch[1]) if step == 100 else batch

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.01), steps=130, change=spoil)

    assert [(finding.code, finding.since_step) for finding in findings] == [("G102", 100)]


def test_a_loss_at_its_clamp_is_unchanged() -> None:
    torch.manual_seed(0)
    model = mlp(128, 128)

    def clamped(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(outputs, targets).clamp(min=3.0)

    findings = train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=60, loss_of=clamped)

    assert "W103" in codes(findings)
    assert [(finding.since_step, finding.opened_step) for finding in findings if finding.code == "W103"] == [(0, 9)]
