"""Where the time of a step goes, by a clock that moves when it is told to; and as torch's hooks tell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from barograph.capture.price import Price
from barograph.capture.step_times import REPORT_SECS, StepTimes
from barograph.model.clock import ManualClock
from barograph.model.key import Kind


class Training:
    """Steps that take as long as a test says."""

    def __init__(self) -> None:
        self.clock, self.price = ManualClock(), Price(None)
        self.times = StepTimes(self.price, self.clock.monotonic)

    def spend(self, part: str, secs: float, *, capture: float = 0.0) -> None:
        timed = getattr(self.times, part)
        timed.begins()
        self.clock.advance(secs)
        self.capture(capture)
        timed.ended()

    def capture(self, secs: float) -> None:
        self.clock.advance(secs)
        self.price.charge(secs)

    def step(self, *, data: float = 0.0, other: float = 0.0, heard: bool = True, capture: float = 0.0) -> None:
        self.clock.advance(data)
        self.times.data_secs += data
        for part, secs in (("forward", 0.25), ("backward", 0.5), ("optimizer", 0.125)):
            if heard:
                self.spend(part, secs, capture=capture)
            else:
                self.clock.advance(secs)
        self.clock.advance(other)
        self.times.step_ended(self.clock.monotonic())

    def take_means(self) -> dict[str, float]:
        return {key.path: value for key, value in self.times.take_means(self.clock.monotonic()).items()}


@pytest.fixture
def training() -> Training:
    training = Training()
    training.step(other=60.0)  # the first one holds starting up
    return training


def test_each_part_is_told_as_its_mean_over_the_steps(training: Training) -> None:
    training.step(data=0.25, other=0.125, capture=0.125)
    training.step(data=0.75, other=0.375)
    assert training.take_means() == {
        "step": 1.8125, "data": 0.5, "forward": 0.25, "backward": 0.5, "optimizer": 0.125, "capture": 0.1875,
        "other": 0.25, "steps": 2.0, "longest": 2.0,
    }


def test_it_is_told_at_most_twice_a_second(training: Training) -> None:
    assert training.take_means() == {}
    training.step()
    assert training.take_means()["steps"] == 1.0
    assert training.take_means() == {}
    training.clock.advance(REPORT_SECS)
    assert training.take_means() == {}  # no step was made since


def test_parts_that_were_heard_stand_for_the_steps_that_were_not(training: Training) -> None:
    training.step(other=0.125)
    for _ in range(3):
        training.step(other=0.125, heard=False)
    means = training.take_means()
    assert (means["forward"], means["backward"], means["other"], means["steps"]) == (0.25, 0.5, 0.125, 4.0)
    training.step(other=0.125, heard=False)
    assert training.take_means()["forward"] == 0.25


def test_of_parts_never_heard_nothing_is_told() -> None:
    training = Training()
    for _ in range(2):
        training.step(heard=False)
    assert set(training.take_means()) == {"step", "data", "capture", "steps", "longest"}


def test_the_time_of_an_evaluation_belongs_to_no_step(training: Training) -> None:
    training.step()
    training.clock.advance(30.0)
    training.times.data_secs += 20.0
    training.times.evaluation_ended(training.clock.monotonic())
    training.step()
    means = training.take_means()
    assert (means["step"], means["longest"], means["data"]) == (0.875, 0.875, 0.0)


def test_what_raised_has_never_ended(training: Training) -> None:
    training.times.backward.begins()
    training.clock.advance(5.0)
    training.times.step_ended(training.clock.monotonic())
    training.step()
    assert training.take_means()["backward"] == 0.5


def test_a_part_inside_itself_counts_once(training: Training) -> None:
    training.times.forward.begins()
    training.spend("forward", 0.25)
    training.times.forward.ended()
    training.times.step_ended(training.clock.monotonic())
    training.clock.advance(1.0)
    assert training.take_means()["forward"] == 0.25


def test_torch_tells_of_every_part(record: Callable[..., Any]) -> None:
    clock = ManualClock()
    tape = record(preset="moments", clock=clock)
    times = tape.session.progress.times
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Slow(clock, 0.25))
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    optimizer.clock = clock
    for _ in range(4):
        times.data_secs += 0.125
        clock.advance(0.125)
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        clock.advance(0.0625)
        optimizer.step()
    means = {key.path: value for key, value in tape.steps()[-1].scalars.items() if key.kind is Kind.TIME}
    assert means.pop("capture") >= 0.0
    wanted = {"step": 1.4375, "data": 0.125, "forward": 0.25, "backward": 0.5, "optimizer": 0.5, "other": 0.0625,
              "steps": 1.0, "longest": 1.4375}
    # Capture is charged by the real clock, which the one of the steps does not follow.
    assert means == pytest.approx(wanted, abs=0.05)


class Slow(torch.nn.Module):
    """Takes as long forward as it is told, and twice as long backward."""

    def __init__(self, clock: ManualClock, secs: float) -> None:
        super().__init__()
        self.clock, self.secs = clock, secs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return SlowFunction.apply(x, self)


class SlowFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, slow: Slow) -> torch.Tensor:
        ctx.slow = slow
        slow.clock.advance(slow.secs)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.slow.clock.advance(2 * ctx.slow.secs)
        return gradient, None


class SlowSGD(torch.optim.SGD):
    clock: ManualClock

    def step(self, closure: Any = None) -> Any:
        self.clock.advance(0.5)
        return super().step(closure)
