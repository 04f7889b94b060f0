"""LearningRate: zero, gone, stepped at the wrong place, risen again, never moved."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from barograph.model.cause import Cause
from barograph.model.facts import Fact, fact
from barograph.model.key import Key
from barograph.model.step import Mode
from barograph.rules.base import Unjudged
from barograph.rules.learning_rates import LearningRate
from barograph.runs.reading.view import StepView
from literals import LOSS, RATE, causes, last, said, step, subjects


def course(
    rate: Callable[[int], float], steps: int, facts: Callable[[int], dict[Key, float]] = lambda _: {}
) -> list[StepView]:
    """Steps whose rate is told where it changes, and whose facts in every tenth step."""
    views, before = [], None
    for number in range(steps):
        all_facts = {} if rate(number) == before else {RATE: rate(number)}
        before = rate(number)
        views.append(step(number, {LOSS: 1.0}, all_facts, facts(number) if number % 10 == 0 else {}))
    return views


def first_found(views: list[StepView]) -> tuple[int, str] | None:
    found = subjects(LearningRate(), *views)
    return next(((number, item[0]) for number, item in enumerate(found) if item), None)


def scheduled(name: str, horizon: float, epoch: float = 20.0, by: int = 1) -> Callable[[int], dict[Key, float]]:
    """Facts of a scheduler that is stepped with every `by`-th step."""
    return lambda number: {fact(Fact.SCHEDULER_STEPS, name): float(number // by),
                           fact(Fact.SCHEDULER_HORIZON, name): horizon, fact(Fact.EPOCH_STEPS): epoch}


@pytest.mark.parametrize("rate", [
    lambda _: 0.1,
    lambda number: 0.1 * min(1.0, number / 50),  # warm-up from 0
    lambda number: 0.05 * (1 + math.cos(math.pi * number / 300)),  # cosine
    lambda number: 0.1 * (1 - number / 300),  # to zero
    lambda number: 0.1 * 0.97**number,  # to a ten-thousandth
    lambda number: 0.05 * (1 + math.cos(math.pi * (number % 100) / 100)),  # warm restarts
])
def test_the_usual_schedules_are_well(rate: Callable[[int], float]) -> None:
    assert first_found(course(rate, 300)) is None


def test_a_rate_of_zero_is_named_after_ten_steps() -> None:
    views = course(lambda _: 0.0, 20)

    assert first_found(views) == (10, "zero")
    assert last(LearningRate(), *views).message == "The learning rate has been 0 since step 0."


def test_training_that_goes_on_after_the_schedule_came_to_zero_is_named() -> None:
    views = course(lambda number: max(0.0, 0.1 * (1 - number / 100)), 300)

    assert first_found(views) == (110, "zero")
    assert Cause.SCHEDULER_MISPLACED in causes(last(LearningRate(), *views))


def test_a_rate_as_good_as_gone_is_named() -> None:
    assert first_found(course(lambda number: 0.1 * 0.5**number, 100)) == (27, "gone")


def test_a_scheduler_of_epochs_stepped_with_each_batch_is_named_within_a_few_epochs() -> None:
    def stepped(number: int) -> float:
        return 0.1 * 0.1 ** (number // 10)

    views = course(stepped, 60, scheduled("StepLR", 100.0))

    assert first_found(views) == (40, "stepped each batch")
    found = last(LearningRate(), *views[:41])
    assert causes(found)[Cause.SCHEDULER_MISPLACED] == 0.9
    assert found.message == (
        "StepLR is stepped every batch (40 times by step 40): the learning rate fell from 0.1 to 1e-5 by step "
        "30, within 1.5 epochs (20 batches each).")


@pytest.mark.parametrize(("name", "by", "epoch"), [("LambdaLR", 1, 20.0), ("StepLR", 20, 20.0), ("StepLR", 1, 5.0)])
def test_schedulers_at_their_place_are_let_pass(name: str, by: int, epoch: float) -> None:
    views = course(lambda number: 0.1 * 0.1 ** (number // 10), 50, scheduled(name, 100.0, epoch, by))

    assert first_found(views) is None


def test_a_cosine_beyond_its_end_rises_again() -> None:
    def cosine(number: int) -> float:
        return 0.05 * (1 + math.cos(math.pi * number / 50))

    views = course(cosine, 100, scheduled("CosineAnnealingLR", 50.0, epoch=1000.0))

    found = first_found([*views])
    assert found is not None
    assert found[1] in ("rises again", "stepped each batch")
    alone = course(cosine, 100, scheduled("CosineAnnealingWarmRestarts", 50.0, epoch=1000.0))
    assert first_found(alone) is None


def test_a_scheduler_that_was_never_stepped_is_named_after_two_epochs() -> None:
    views = course(lambda _: 0.1, 60, scheduled("StepLR", 30.0, by=1000))

    assert first_found(views) == (40, "does not move")


def test_a_scheduler_stepped_through_its_plan_without_effect_is_named() -> None:
    assert first_found(course(lambda _: 0.1, 60, scheduled("MultiStepLR", 30.0))) == (30, "does not move")
    assert first_found(course(lambda _: 0.1, 60, scheduled("ReduceLROnPlateau", 30.0))) is None


def test_one_group_at_zero_beside_others_is_let_pass() -> None:
    other = Key(RATE.kind, "group1")
    views = [step(number, {LOSS: 1.0, RATE: 0.0, other: 0.1}) for number in range(30)]

    assert first_found(views) is None


def test_without_rates_nothing_is_judged() -> None:
    assert said(LearningRate(), step(0, {LOSS: 1.0})) == [[Unjudged("no learning rate was recorded")]]
    assert said(LearningRate(), step(0, {RATE: 0.0}, mode=Mode.EVAL)) == [[Unjudged("only evaluations were recorded")]]
