"""LossSpike."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind
from barograph.model.step import Step
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.spikes import LossSpike
from barograph.runs.reading.view import StepView
from judging import RATE, TOTAL, causes, said, steps_of, symptoms

BATCH = Key(Kind.BATCH, "model[0]")


def trained(losses: Sequence[float], batches: Mapping[int, Summary] | None = None) -> list[StepView]:
    usual = Summary(count=64, min=-3.0, max=3.0)
    return [StepView.of(step, {TOTAL: loss, RATE: 0.1, BATCH: (batches or {}).get(step, usual)})
            for step, loss in enumerate(losses)]


LEVEL = [2.0 * 0.97**step + 0.3 for step in range(60)]


def test_a_loss_far_above_its_level_is_a_spike_and_waits_for_three_more() -> None:
    views = trained([*LEVEL, 12.0, 0.7, 0.6, 0.6, 0.6])

    (symptom,) = symptoms(LossSpike(), views)

    assert steps_of(LossSpike(), views) == [63]
    assert symptom.since == 60
    assert symptom.message.startswith("The loss jumped to 12 at step 60, ")
    assert "3 steps later it was back at 0.6" in symptom.message
    assert causes(symptom)[:2] == ["bad-sample", "learning-rate-too-high"]


def test_a_loss_that_does_not_come_back_speaks_for_the_learning_rate() -> None:
    (symptom,) = symptoms(LossSpike(), trained([*LEVEL, 12.0, 11.0, 9.0, 10.0, 8.0]))

    assert causes(symptom)[0] == "learning-rate-too-high"
    assert "lower the learning rate from 0.1 to 0.0333" in symptom.remedy.lower()


def test_a_single_sample_that_is_hard_for_a_moment_is_no_spike() -> None:
    one = {fact(Fact.BATCH_SIZE): 1.0}

    def views(batch: Summary, *after: float) -> list[StepView]:
        usual = Summary(count=64, min=-3.0, max=3.0)
        return [StepView.of(step, {TOTAL: loss, RATE: 0.1, BATCH: batch if step == 60 else usual,
                                   **(one if step < 9 else {})}) for step, loss in enumerate([*LEVEL, 12.0, *after])]

    usual, far = Summary(count=64, min=-3.0, max=3.0), Summary(count=64, min=-3.0, max=1e4)
    assert symptoms(LossSpike(), views(usual, 0.7, 0.6, 0.6, 0.6)) == []
    assert len(symptoms(LossSpike(), views(usual, 11.0, 9.0, 10.0, 8.0))) == 1
    assert len(symptoms(LossSpike(), views(far, 0.7, 0.6, 0.6, 0.6))) == 1


def test_a_loss_that_ends_in_nan_is_told_at_once() -> None:
    assert steps_of(LossSpike(), trained([*LEVEL, 12.0, math.nan, math.nan])) == [61]


@pytest.mark.parametrize(
    ("batch", "cause"),
    [(Summary(count=64, min=-3.0, max=1e4), "bad-sample"), (Summary(count=64, nan=1, min=-3.0, max=3.0),
                                                           "non-finite-input")],
)
def test_a_batch_that_is_odd_is_named(batch: Summary, cause: str) -> None:
    (symptom,) = symptoms(LossSpike(), trained([*LEVEL, 12.0, 11.0, 9.0, 10.0], {60: batch}))

    assert causes(symptom)[0] == cause
    assert symptom.causes[0].weight >= 0.8


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_long_tail_of_small_batches_is_no_spike(spread: float, seed: int) -> None:
    draw = random.Random(seed)
    losses = [(0.1 + 2.3 * 0.99**step) * math.exp(draw.gauss(0.0, spread)) for step in range(3000)]

    assert steps_of(LossSpike(), trained(losses)) == []


def test_a_loss_that_has_been_as_high_lately_is_no_spike() -> None:
    peaked = [*LEVEL[:40], 5.0, *LEVEL[40:]]

    assert steps_of(LossSpike(), trained([*peaked, 12.0, 0.6, 0.6, 0.6])) == []
    assert steps_of(LossSpike(), trained([*peaked, 16.0, 0.6, 0.6, 0.6])) == [64]


def test_a_restart_of_the_learning_rate_is_no_spike() -> None:
    restarted = [0.2 + 2.0 * 0.95 ** (step % 100) * (1.0 if step < 100 else 0.7) for step in range(300)]

    assert steps_of(LossSpike(), trained(restarted)) == []


def test_losses_below_zero_and_of_several_optimizers_are_not_judged() -> None:
    negative = said(LossSpike(), trained([-1.0, *LEVEL, 12.0, 0.6, 0.6, 0.6]))
    adversarial = [StepView.of(Step(at, at, "G"), {TOTAL: loss}) for at, loss in enumerate([*LEVEL, 12.0, 0.6, 0.6])]

    assert negative[-1] == [Unjudged("the losses are not positive")]
    assert symptoms(LossSpike(), adversarial) == []


def test_what_it_remembers_does_not_grow() -> None:
    memory: dict[str, object] = {}
    said(LossSpike(), trained(LEVEL * 10), memory)

    assert len(memory["losses"]) == 50  # type: ignore[arg-type]


def test_a_loss_that_comes_back_to_zero_is_no_level_for_the_next() -> None:
    calm = [1.0 + 0.01 * (step % 3) for step in range(40)]
    found = symptoms(LossSpike(), trained([*calm, 50.0, 0.0, 0.9, 1.0, *calm[:30], 60.0, 1.0, 1.0, 1.0]))
    assert len(found) == 2


def test_it_says_how_many_steps_later_the_loss_was_back() -> None:
    views = trained([*[1.0 + 0.01 * (step % 3) for step in range(40)], 50.0, 1.0, 1.0, 1.0])
    sparse = [view.at(Step(10 * view.step.number, 10 * view.step.number)) for view in views]
    (symptom,) = symptoms(LossSpike(), sparse)
    assert "30 steps later it was back" in symptom.message
