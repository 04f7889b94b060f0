"""Divergence."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from barograph.model.facts import Fact
from barograph.model.finding import Severity
from barograph.model.key import Key, Kind
from barograph.model.step import Step
from barograph.model.summary import Summary
from barograph.rules.divergence import Divergence
from barograph.runs.reading.view import StepView
from judging import CROSS_ENTROPY, RATE, SQUARES, TOTAL, causes, facts, steps_of, symptoms

TARGET = Key(Kind.TARGET, "mse_loss")


def trained(losses: Sequence[float], key: Key = CROSS_ENTROPY, target: float | None = None) -> list[StepView]:
    more: dict[Key, Summary | float] = {RATE: 0.1}
    if target is not None:
        more[TARGET] = Summary(count=64, min=-target, max=target, sum_sq=64 * target**2)
    return [StepView.of(step, {TOTAL: loss, key: loss, **more}) for step, loss in enumerate(losses)]


def test_a_loss_over_classes_far_above_its_start_has_run_away() -> None:
    views = trained([2.3, 2.4, 3.0, 5.0, *([8.0] * 8), 9.0, 12.0, 15.0, 20.0])

    first, *_ = symptoms(Divergence(), views)

    assert steps_of(Divergence(), views) == [12, 13, 14, 15]
    assert first.message == "The loss diverges: it rose from 2.4 to over 8."
    assert causes(first)[0] == "learning-rate-too-high"
    assert first.remedy.startswith("Lower the learning rate from 0.1 to 0.01 and start again")


def test_heavy_momentum_is_suspected_first() -> None:
    views = trained([2.3, 2.4, 3.0, 5.0, *([8.0] * 9)])
    views[-1] = StepView.of(12, {TOTAL: 12.0, CROSS_ENTROPY: 12.0, **facts({(Fact.MOMENTUM, "group0"): 0.999})})

    assert causes(symptoms(Divergence(), views)[-1])[0] == "momentum-wrong"


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_one_may_be_surely_wrong_now_and_then(seed: int) -> None:
    draw = random.Random(seed)
    losses = [draw.choice([0.001, 0.05, 0.4, 1.5, 2.3, 4.0, 6.5]) for _ in range(2000)]

    assert steps_of(Divergence(), trained(losses)) == []


def test_a_trained_model_that_meets_a_new_task_may_start_from_low() -> None:
    assert steps_of(Divergence(), trained([0.02] * 5 + [1.8] * 50)) == []


@pytest.mark.parametrize(("losses", "target"), [([1.0, 2.0, 4.0, 30.0, *([100.0] * 10)], 2.0)])
def test_squares_far_above_those_of_the_targets_have_run_away(losses: list[float], target: float) -> None:
    assert steps_of(Divergence(), trained(losses, SQUARES, target))
    assert steps_of(Divergence(), trained(losses, SQUARES, 10.0)) == []


def test_a_loss_whose_targets_grow_with_what_is_learnt_may_grow() -> None:
    growing = [1.0 + 0.05 * step for step in range(400)]
    unknown = trained(growing, SQUARES)
    known = [view for step, loss in enumerate(growing)
             for view in [StepView.of(step, {TOTAL: loss, SQUARES: loss, TARGET: Summary(count=64, sum_sq=640 * loss)})]
             ]

    assert steps_of(Divergence(), unknown) == []
    assert steps_of(Divergence(), known) == []


def test_a_loss_of_unknown_making_may_rise_and_be_negative() -> None:
    rising = [StepView.of(step, {TOTAL: 0.5 + 0.1 * step}) for step in range(300)]
    falling = [StepView.of(step, {TOTAL: -0.1 * step}) for step in range(300)]

    assert steps_of(Divergence(), rising) == []
    assert steps_of(Divergence(), falling) == []


def test_the_negative_of_a_loss_function_is_named_at_once() -> None:
    views = [StepView.of(step, {TOTAL: -2.3, CROSS_ENTROPY: 2.3}) for step in range(3)]

    first, *_ = symptoms(Divergence(), views)

    assert steps_of(Divergence(), views) == [0, 1, 2]
    assert (first.subject, causes(first)) == ("below zero", ["loss-sign"])
    assert first.remedy == "Remove the minus sign: call backward on cross_entropy itself."


@pytest.mark.parametrize(
    ("name", "cause"),
    [("nll_loss", "logits-as-probabilities"), ("binary_cross_entropy_with_logits", "labels-off-by-one"),
     ("mse_loss", "wrong-loss")],
)
def test_a_loss_below_zero_that_cannot_be_is_a_fault(name: str, cause: str) -> None:
    (symptom,) = symptoms(Divergence(), [StepView.of(0, {TOTAL: -0.5, Key(Kind.LOSS, name): -0.5})])

    assert causes(symptom)[0] == cause


def test_a_loss_without_a_floor_is_doubtful_where_nothing_is_known_of_it() -> None:
    views = [StepView.of(step, {TOTAL: -(2.0**step)}) for step in range(30)]

    *_, last = symptoms(Divergence(), views)

    assert last.severity is Severity.DOUBTFUL
    assert causes(last)[0] == "loss-sign"


def test_adversaries_are_not_judged() -> None:
    views = [StepView.of(Step(at, at, "D"), {TOTAL: -2.3, CROSS_ENTROPY: 2.3}) for at in range(9)]

    assert symptoms(Divergence(), views) == []


def test_momentum_that_was_told_with_the_first_step_is_known_when_the_loss_runs_away() -> None:
    first, *rest = trained([0.7] * 10 + [40.0 + step for step in range(40)])
    all_facts = StepView.of(first.step, {**first.scalars(Kind.LOSS), **facts({(Fact.MOMENTUM, "group0"): 0.9999})})

    assert causes(symptoms(Divergence(), [all_facts, *rest])[0])[0] == "momentum-wrong"
    assert causes(symptoms(Divergence(), [first, *rest])[0])[0] != "momentum-wrong"
