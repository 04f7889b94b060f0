"""The newer rules about tensors on real trainings: each fault is named by its rule, with its cause."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import barograph
from barograph.attaching import attach
from barograph.model.cause import Cause
from barograph.model.finding import Finding
from barograph.model.settings import Settings
from barograph.rules.registry import rules_from_settings
from barograph.store.urls import store_from_url
from barograph.watch.loop import Watcher

Make = Callable[[nn.Module], torch.optim.Optimizer]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def train(
    model: nn.Module, make: Make, *, steps: int = 60, anew: bool = False, scaled: float = 1.0,
    schedule: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler] | None = None,
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = F.cross_entropy,
    like: Callable[[torch.Tensor], torch.Tensor] = lambda x: x, rules: tuple[str, ...] = ("all",),
) -> dict[str, Finding]:
    """Train on points whose class is that of their greatest coordinate; return what was found, by code.

    Args:
        model: Of 16 numbers to 4.
        make: Makes the optimizer.
        steps: How many.
        anew: Make it anew at each step.
        scaled: What the loss is multiplied with.
        schedule: Makes the scheduler, which is stepped with each batch.
        loss_of: Of outputs and classes.
        like: Makes the inputs what the model wants.
        rules: To judge with.
    """
    url = f"memory://{secrets.token_hex(8)}"
    optimizer = make(model)
    scheduler = schedule(optimizer) if schedule else None
    with attach(model, optimizer, to=url, watch=False, budget=None):
        for _ in range(steps):
            inputs = torch.randn(64, 16)
            loss = loss_of(model(like(inputs)), inputs[:, :4].argmax(1)) * scaled
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            if anew:
                optimizer = make(model)
    watcher = Watcher(store_from_url(url), rules_from_settings(Settings(rules=rules)), record=False)
    while not watcher.poll().drained:
        pass
    return {finding.code: finding for finding in watcher.findings}


def mlp(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, width in zip((16, *widths), widths, strict=False):
        layers += [nn.Linear(before, width), act()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 4))


def adam(rate: float = 1e-3) -> Make:
    return lambda model: torch.optim.Adam(model.parameters(), lr=rate)


def sgd(rate: float = 0.1, momentum: float = 0.0) -> Make:
    return lambda model: torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)


@pytest.mark.parametrize("make", [adam(), sgd(momentum=0.9)])
def test_a_plain_training_is_well(make: Make) -> None:
    assert train(mlp(32, 32), make, steps=120) == {}


def test_weights_too_large_in_depth_make_the_gradient_explode_on_its_way_back() -> None:
    model = mlp(*[64] * 20, act=nn.Tanh)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, 0.7)

    found = train(model, sgd(1e-6), steps=30)["G103"]

    assert (found.subject, found.causes[0].cause) == ("depth", Cause.EXPLODING_GRADIENT)
    assert found.opened_step == 20


def test_a_learning_rate_that_diverges_is_named_before_it_is_nan() -> None:
    def squares(outputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return (outputs - F.one_hot(classes, 4)).square().sum(1).mean()

    found = train(nn.Linear(16, 4), sgd(3.0), steps=12, loss_of=squares)["G103"]

    assert (found.subject, found.opened_step) == ("time", 3)
    assert found.causes[0].cause == Cause.LEARNING_RATE_TOO_HIGH


class Logarithm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.log()


def test_the_module_that_makes_nan_is_named() -> None:
    found = train(nn.Sequential(nn.Linear(16, 8), Logarithm(), nn.Linear(8, 4)), sgd(), steps=10)

    assert found["N102"].message.startswith(
        'NaN or infinite values arose in "1" (Logarithm) or just before it: its output holds ')
    assert found["N101"].message.startswith("NaN or infinite values in 2 of 3 outputs, ")


def test_an_adam_made_anew_at_each_step_forgets() -> None:
    found = train(mlp(32), adam(), anew=True, rules=("O101",))["O101"]

    assert (found.subject, found.causes[0].cause) == ("forgotten", Cause.OPTIMIZER_STATE_LOST)
    assert found.opened_step == 16


def test_momentum_made_anew_at_each_step_is_the_gradient() -> None:
    assert train(mlp(32), sgd(momentum=0.9), anew=True, rules=("O101",))["O101"].subject == "forgotten"


def test_gradients_too_small_for_float16_underflow() -> None:
    model = mlp(32, 32).half()

    found = train(model, sgd(), scaled=1e-5, like=lambda x: x.half(), steps=20,
                  loss_of=lambda outputs, classes: F.cross_entropy(outputs.float(), classes), rules=("N103",))["N103"]

    assert (found.subject, found.causes[0].cause) == ("underflow", Cause.FP16_UNDERFLOW)


def test_float16_with_gradients_of_the_usual_size_is_well() -> None:
    model = mlp(32, 32).half()

    assert train(model, sgd(), like=lambda x: x.half(), steps=40, rules=("N103", "N101"),
                 loss_of=lambda outputs, classes: F.cross_entropy(outputs.float(), classes)) == {}


def test_a_schedule_of_epochs_stepped_with_each_batch_leaves_no_rate() -> None:
    found = train(mlp(32), sgd(), steps=80, schedule=lambda opt: torch.optim.lr_scheduler.ExponentialLR(opt, 0.5))

    assert found["O102"].subject == "stepped each batch"
    assert found["O102"].opened_step <= 27


class Twins(nn.Module):
    """Two views of each sample, drawn together; nothing holds the samples apart."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = mlp(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other = (self.encoder(x + 0.3 * torch.randn_like(x)) for _ in range(2))
        return (one - other).square().mean()


def test_samples_that_nothing_holds_apart_collapse() -> None:
    found = train(Twins(), adam(1e-2), steps=400, loss_of=lambda loss, _: loss, rules=("A103",))["A103"]

    assert found.causes[0].cause == Cause.REPRESENTATION_COLLAPSE


class Attention(nn.Module):
    """Attention of four places of four numbers each, with a softmax that is a module."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(4, 8) for _ in range(3))
        self.attn_softmax, self.head, self.scale = nn.Softmax(-1), nn.Linear(8, 4), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = x.view(-1, 4, 4)
        logits = self.scale * self.q_proj(places) @ self.k_proj(places).transpose(1, 2)
        return self.head((self.attn_softmax(logits) @ self.v_proj(places)).mean(1))


@pytest.mark.parametrize(("scale", "expected"), [(8**-0.5, set()), (1e4, {"A104"})])
def test_attention_with_logits_far_too_large_looks_at_one_place(scale: float, expected: set[str]) -> None:
    found = train(Attention(scale), adam(), rules=("A104",))

    assert set(found) == expected


class Switched(nn.Module):
    """A layer that some code switches off after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last, self.calls = nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.last(self.act(self.first(x) * (self.calls < 10)))


def test_a_layer_that_is_switched_off_is_all_zero() -> None:
    found = train(Switched(), adam(), steps=40, rules=("W105",))["W105"]

    assert found.subject == "output"
    assert [item.key and item.key.path for item in found.evidence] == ["act"]


def test_of_a_script_that_clips_the_clipped_gradients_are_recorded_whenever_gradients_are() -> None:
    url = f"memory://{secrets.token_hex(8)}"
    model = mlp(32)
    optimizer = adam()(model)
    with attach(model, optimizer, to=url, watch=False, budget=None):
        for _ in range(12):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(64, 16)), torch.randint(0, 4, (64,))).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
    run = barograph.open(url)

    before, after = (run.series(f"{kind}:0.weight", "l2") for kind in ("gradient", "gradient_clipped"))
    assert list(after.steps) == list(before.steps) == list(range(12))
    assert (after.values <= 0.0101).all()
    assert (before.values > 0.0101).all()


class CallsTanh(nn.Module):
    """Its activations are functions, and it may divide what it is fed."""

    def __init__(self, divisor: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)])
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, last = self.layers
        return last(torch.tanh(second(torch.tanh(first(x / self.divisor)))))


def test_inputs_in_their_hundreds_saturate_functions_that_a_model_calls() -> None:
    found = train(CallsTanh(1.0), sgd(0.02), like=lambda x: 300 * (x.abs() + 1))

    assert found["A102"].causes[0].cause == found["D103"].causes[0].cause == Cause.INPUT_NOT_NORMALIZED


def test_a_model_that_divides_them_is_well() -> None:
    assert train(CallsTanh(600.0), sgd(0.02), like=lambda x: 300 * (x.abs() + 1), steps=100) == {}
