"""What a training lets be done to it: learning rates lowered, updates withheld, a checkpoint before it stops."""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler as schedules

from barograph.capture.torch.checkpoint import load, save
from barograph.errors import DamagedChunk, TrainingStopped, UnknownKey
from barograph.runs.state.checkpoints import read_checkpoint
from barograph.runs.state.control import Done, Request
from barograph.store.urls import store_from_url

BOTH = ("lower-lr", "skip-step")


def small() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


INPUTS, LABELS = torch.linspace(-1, 1, 64).reshape(16, 4), torch.arange(16) % 3


def train(model: Any, optimizer: Any, steps: int = 1, scheduler: Any = None) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(INPUTS), LABELS).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def lower(factor: float = 0.5, floor: float = 0.0, finding: str = "L101-1-a", optimizer: str = "") -> Request:
    return Request("lower-lr", finding, "L101: It rose.", 0, 0.0, "p0", optimizer, {"factor": factor, "floor": floor})


def skip(steps: int = 1, finding: str = "G102-1-a", optimizer: str = "") -> Request:
    return Request("skip-step", finding, "G102: It spiked.", 0, 0.0, "p0", optimizer, {"steps": steps})


def said(tape: Any) -> list[Any]:
    return [(item.result, item.done) for item in tape.session.steering.orders.reports()]


def rates(optimizer: Any) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]


# Learning rates


def test_a_learning_rate_is_lowered_between_two_steps_and_recorded(record: Any) -> None:
    tape = record(allow=BOTH)
    model = small()
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.01}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    train(model, optimizer, 3)
    tape.session.steering.orders.hear(lower())
    train(model, optimizer, 2)

    assert rates(optimizer) == [0.05, 0.005]
    assert [tape.scalar("learning_rate:group0", at) for at in range(5)] == [0.1, 0.1, 0.1, 0.1, 0.05]
    assert said(tape) == [("lowered the learning rate from 0.1, 0.01 to 0.05, 0.005", True)]
    (done,) = tape.session.steering.orders.reports()
    assert (done.action, done.finding_id, done.step) == ("lower-lr", "L101-1-a", 4)


def test_what_is_heard_twice_is_done_once(record: Any) -> None:
    tape = record(allow=BOTH)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    for _ in range(2):
        tape.session.steering.orders.hear(lower())
        train(model, optimizer)

    assert rates(optimizer) == [0.05]


def test_nothing_is_done_that_the_training_does_not_allow(record: Any) -> None:
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for request in (lower(), skip()):
        tape.session.steering.orders.hear(request)
    train(model, optimizer, 2)

    assert rates(optimizer) == [0.1]
    assert [done for _, done in said(tape)] == [False, False]
    assert said(tape)[0][0].startswith("did nothing: lower-lr is not allowed; start the training with --allow lower")


def test_a_floor_is_kept_and_said(record: Any) -> None:
    tape = record(allow=BOTH)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for number in range(2):
        tape.session.steering.orders.hear(lower(0.1, floor=0.04, finding=f"L101-{number}-a"))
        train(model, optimizer)

    assert rates(optimizer) == [0.04]
    assert said(tape)[1] == ("did nothing: the learning rate 0.04 is already at its minimum", False)


def test_a_learning_rate_in_a_tensor_stays_that_tensor(record: Any) -> None:
    tape = record(allow=BOTH)
    model = small()
    held = torch.tensor(0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=held)
    tape.session.steering.orders.hear(lower())
    train(model, optimizer)

    assert optimizer.param_groups[0]["lr"] is held
    assert held.item() == pytest.approx(0.05)


def test_only_the_optimizer_that_is_meant_is_lowered(record: Any) -> None:
    tape = record(allow=BOTH)
    one, two = small(), small()
    first, second = torch.optim.SGD(one.parameters(), 0.1), torch.optim.Adam(two.parameters(), 0.1)
    for _ in range(2):
        train(one, first)
        train(two, second)
    label = next(name for name in tape.session.counts.by_optimizer if "Adam" in name or "#2" in name)
    tape.session.steering.orders.hear(lower(optimizer=label))
    train(one, first)

    assert sorted(rates(first) + rates(second)) == [0.05, 0.1]


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: schedules.StepLR(o, 7, 0.5),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [5, 20], 0.3),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.97),
    "ConstantLR": lambda o: schedules.ConstantLR(o, 0.3, 20),
    "LinearLR": lambda o: schedules.LinearLR(o, 0.1, 1.0, 25),
    "PolynomialLR": lambda o: schedules.PolynomialLR(o, 40, 2.0),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda step: 1 / (1 + 0.1 * step)),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda step: 0.98),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 50),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 9),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=60),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.01, 0.1, step_size_up=6),
    "ReduceLROnPlateau": lambda o: schedules.ReduceLROnPlateau(o, patience=2),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, 0.1, total_iters=5), schedules.CosineAnnealingLR(o, 40)], [5]),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler(
        [schedules.ConstantLR(o, 0.5, 4), schedules.ExponentialLR(o, 0.95)]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_rate_that_was_lowered_stays_lowered_under_a_schedule(record: Any, name: str) -> None:
    def course(at: int | None) -> list[float]:
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler = SCHEDULES[name](optimizer)
        found = []
        for step in range(30):
            if step == at:
                tape.session.steering.orders.hear(lower(0.5))
            train(model, optimizer)
            found += rates(optimizer)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scheduler.step(1.0) if name == "ReduceLROnPlateau" else scheduler.step()
        return found

    tape = record(allow=BOTH, preset="free")
    plain = course(None)
    tape.close()
    tape = record(allow=BOTH, preset="free")
    lowered = course(10)

    assert lowered[:10] == plain[:10]
    assert lowered[10:] == pytest.approx([0.5 * rate for rate in plain[10:]], rel=1e-6)


# Updates


@pytest.mark.parametrize("make", [
    lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=0.01),
    lambda parameters: torch.optim.AdamW(parameters, 0.01),
    lambda parameters: torch.optim.Adam(parameters, 0.01, foreach=True),
    lambda parameters: torch.optim.RMSprop(parameters, 0.01, momentum=0.5),
], ids=["SGD", "AdamW", "Adam foreach", "RMSprop"])
def test_a_step_whose_update_is_withheld_changes_nothing_at_all(record: Any, make: Any) -> None:
    tape = record(allow=BOTH)
    model = small()
    optimizer = make(model.parameters())
    train(model, optimizer, 3)
    tape.session.steering.orders.hear(skip(2))
    train(model, optimizer)  # heard after this one
    before = [item.clone() for item in state_of(model, optimizer)]
    train(model, optimizer, 2)

    assert all(torch.equal(one, two) for one, two in zip(before, state_of(model, optimizer), strict=True))
    assert all(item.grad is not None for item in model.parameters())
    assert [records.step.skipped for records in tape.steps()] == [False] * 4 + [True] * 2
    assert said(tape) == [("withheld the updates of steps 4 to 5", True)]
    train(model, optimizer)
    assert not torch.equal(before[0], next(iter(model.parameters())))
    assert tape.steps()[-1].step.skipped is False


def state_of(model: Any, optimizer: Any) -> list[torch.Tensor]:
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    return [*(item.detach() for item in model.parameters()), *kept]


def test_the_gradients_of_a_withheld_step_are_recorded(record: Any) -> None:
    tape = record(allow=BOTH)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    tape.session.steering.orders.hear(skip())
    train(model, optimizer, 2)

    assert tape.summary("gradient:0.weight", 2).l2 == pytest.approx(model[0].weight.grad.norm().item(), rel=1e-5)


def test_each_optimizer_has_its_steps_withheld(record: Any) -> None:
    tape = record(allow=BOTH)
    one, two = small(), small()
    first, second = torch.optim.SGD(one.parameters(), 0.1), torch.optim.SGD(two.parameters(), 0.1)
    for number in range(4):
        train(one, first)
        train(two, second)
        if number == 1:
            tape.session.steering.orders.hear(skip())

    assert [records.step.skipped for records in tape.steps()] == [False] * 5 + [True, True, False]


def test_a_step_with_a_closure_cannot_be_withheld_and_says_so(record: Any) -> None:
    tape = record(allow=BOTH)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(INPUTS), LABELS)
        loss.backward()
        return loss

    optimizer.step(closure)
    tape.session.steering.orders.hear(skip())
    optimizer.step(closure)
    before = model[0].weight.detach().clone()
    optimizer.step(closure)

    assert not torch.equal(before, model[0].weight)
    assert said(tape)[0] == (
        "the optimizer computes its gradients in a closure, so its update cannot be withheld", False)


def test_an_update_is_withheld_under_a_gradient_scaler(record: Any) -> None:
    tape = record(allow=BOTH)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def step() -> None:
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(INPUTS), LABELS)).backward()
        scaler.step(optimizer)
        scaler.update()

    step()
    tape.session.steering.orders.hear(skip())
    step()
    before = model[0].weight.detach().clone()
    step()
    assert torch.equal(before, model[0].weight)
    step()
    assert not torch.equal(before, model[0].weight)
    assert said(tape) == [("withheld the update of step 2", True)]


def test_a_sleeping_recording_wakes_to_withhold(record: Any) -> None:
    tape = record(allow=BOTH, budget=1e-9, preset="free")
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer, 200)
    tape.session.steering.orders.hear(skip())
    train(model, optimizer)
    before = model[0].weight.detach().clone()
    train(model, optimizer)

    assert torch.equal(before, model[0].weight)


# A checkpoint before the end


def checkpointed(tape: Any, model: Any, optimizer: Any) -> str:
    tape.session.steering.request_stop("N101: NaN.", finding_id="N101-1-a", checkpoint=True)
    with pytest.raises(TrainingStopped) as stopped:
        train(model, optimizer)
    return str(stopped.value)


def test_models_and_optimizers_come_back_from_a_checkpoint_to_the_last_bit(record: Any) -> None:
    url = f"memory://checkpoint-{secrets.token_hex(8)}"
    tape = record()
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).to(torch.float32)
    model.register_buffer("halves", torch.arange(3, dtype=torch.bfloat16))
    model.register_buffer("none_of_it", torch.empty(0, 3))
    optimizer = torch.optim.AdamW([{"params": model[0].parameters(), "lr": 1e-3}, {"params": model[2].parameters()}],
                                  lr=math.pi / 100, betas=(0.8, 0.99))
    train(model, optimizer, 3)
    name = save(store_from_url(url), tape.integration.names, tape.integration.optimizers, attempt=0, steps=3, who="x")

    other = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    other.register_buffer("halves", torch.zeros(3, dtype=torch.bfloat16))
    other.register_buffer("none_of_it", torch.empty(0, 3))
    again = torch.optim.AdamW([{"params": other[0].parameters()}, {"params": other[2].parameters()}])
    assert load(url, other, again) == 3

    assert name.startswith("checkpoints/0000-00000003-x.")
    assert again.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    for one, two in zip(state_of(model, optimizer), state_of(other, again), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(other.halves, model.halves)
    tape.close()
    train(model, optimizer, 2)
    train(other, again, 2)
    assert torch.equal(model[0].weight, other[0].weight)


def test_a_checkpoint_that_is_damaged_or_not_there_is_named(record: Any) -> None:
    url = f"memory://checkpoint-{secrets.token_hex(8)}"
    store = store_from_url(url)
    model = small()
    with pytest.raises(UnknownKey, match="holds no checkpoint"):
        load(url, model)
    tape = record()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    name = save(store, tape.integration.names, tape.integration.optimizers, attempt=0, steps=1, who="x")
    with pytest.raises(UnknownKey, match=r'no "Sequentia" among its models\. Did you mean "Sequential"'):
        load(url, {"Sequentia": model})
    store.put(name, bytes(store.get(name))[:-1] + b"\xff")

    with pytest.raises(DamagedChunk, match="does not match"):
        read_checkpoint(store)


def test_the_scripts_own_function_saves_where_it_has_one(record: Any) -> None:
    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    tape.session.steering.save_checkpoint = lambda: "saved/here.pt"

    assert checkpointed(tape, model, optimizer) == "N101: NaN. Barograph saved a checkpoint in saved/here.pt."
    assert tape.session.steering.orders.reports() == (Done(
        "stop", "N101-1-a", 0, "", 2, tape.session.steering.orders.reports()[0].done_unix,
        "stopped the training; saved a checkpoint in saved/here.pt"),)


def test_a_checkpoint_that_fails_is_said_and_the_training_stops(record: Any) -> None:
    def fails() -> str:
        raise OSError("No space left on device")

    tape = record()
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    tape.session.steering.save_checkpoint = fails

    assert checkpointed(tape, model, optimizer) == (
        "N101: NaN. Barograph could not save a checkpoint: OSError: No space left on device.")


def test_a_state_that_is_no_plain_data_is_named(record: Any) -> None:
    class Odd(nn.Linear):
        def get_extra_state(self) -> object:
            return object()

    tape = record()
    model = Odd(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer)
    tape.session.steering.save_checkpoint = lambda: save(
        store_from_url(f"memory://{secrets.token_hex(8)}"),
        tape.integration.names,
        tape.integration.optimizers,
        attempt=0,
        steps=1,
        who="x",
    )

    text = checkpointed(tape, model, optimizer)
    assert "_extra_state holds object, which is not plain data: pass attach(checkpoint=…) a function" in text
