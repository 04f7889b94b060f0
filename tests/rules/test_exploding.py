"""ExplodingGradient: by depth, and from step to step."""

from __future__ import annotations

import math

import pytest

from barograph.model.cause import Cause
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.exploding import ExplodingGradient
from barograph.rules.gradients import VanishingGradient
from barograph.runs.reading.view import StepView
from literals import LOSS, RATE, causes, last, of_norm, said, step, subjects, tensors


def deep(number: int, *norms: float) -> StepView:
    return step(number, {Key(Kind.GRADIENT, f"{index}.weight"): of_norm(norm) for index, norm in enumerate(norms)},
                {LOSS: 1.0})


def test_a_gradient_that_grows_on_its_way_back_is_named_the_third_time() -> None:
    views = [deep(number, 1e4, 1e3, 1e2, 10.0, 1.0, 0.1) for number in (0, 10, 20)]

    found = last(ExplodingGradient(), *views)

    assert subjects(ExplodingGradient(), *views) == [[], [], ["depth"]]
    assert found.message == (
        'The gradient explodes: the gradient norm grows from 0.1 at "5" to 10,000 at "0".')
    assert list(causes(found)) == [Cause.EXPLODING_GRADIENT, Cause.INITIALIZATION_SCALE]


def test_then_the_last_layers_small_gradient_has_not_vanished() -> None:
    growing, vanishing = deep(0, 1e4, 1e3, 1e2, 10.0, 1.0, 0.1), deep(0, 0.1, 1.0, 10.0, 1e2, 1e3, 1e4)

    assert said(VanishingGradient(), growing) == [
        [Unjudged("the gradient grows on its way back: see G103")]]
    assert subjects(VanishingGradient(), vanishing) == [[""]]
    assert subjects(ExplodingGradient(), *[vanishing] * 9) == [[]] * 9


@pytest.mark.parametrize("norms", [
    (1e4, 1.0, 1e4, 1.0, 1e4, 1.0),  # up and down
    (300.0, 100.0, 10.0, 3.0, 1.0, 0.9),  # not far enough
    (1e4, 10.0, 0.1),  # three layers
])
def test_other_profiles_are_let_pass(norms: tuple[float, ...]) -> None:
    assert subjects(ExplodingGradient(), *(deep(number, *norms) for number in range(0, 100, 10))) == [[]] * 10


def course(
    *points: tuple[float, float], layer: str = "Linear", facts: dict[Key, float] | None = None
) -> list[StepView]:
    """Steps with a gradient norm and a loss each."""
    key = Key(Kind.GRADIENT, "a.weight")
    return [step(number, {key: of_norm(norm), LOSS: loss, RATE: 0.5}, facts or {}, layers={key: layer})
            for number, (norm, loss) in enumerate(points)]


GROWING = [(1.0, 2.0), (4.0, 2.2), (20.0, 3.0), (150.0, 40.0)]


def test_a_norm_that_rises_with_the_loss_four_times_is_named() -> None:
    found = last(ExplodingGradient(), *course((1.0, 2.0), *GROWING))

    assert found.message == (
        "The gradient explodes: the gradient norm rose from 1 at step 1 to 150, and the loss from 2 to 40.")
    assert found.since == 1
    assert "Lower the learning rate from 0.5 to 0.05 or warm it up; or clip gradients to a norm of 2" in found.remedy
    assert next(iter(causes(found))) == Cause.LEARNING_RATE_TOO_HIGH


def test_a_rise_begins_where_the_norm_leaves_its_noise() -> None:
    points = [(1.0, 2.0), (1.01, 2.0), (1.02, 2.0), (1.03, 2.0), (30.0, 9.0), (400.0, 90.0)]

    found = last(ExplodingGradient(), *course(*points))

    assert found.since == 3
    assert "the gradient norm rose from 1.03 at step 3 to 400, and the loss from 2 to 90" in found.message


def test_a_loss_that_fell_meanwhile_is_compared_with_that_before_the_rise() -> None:
    points = [(1.0, 2.0), (1.01, 2.0), (1.02, 2.5), (1.03, 9.0), (30.0, 8.0), (400.0, 7.0)]

    assert "and the loss from 2 to 7" in last(ExplodingGradient(), *course(*points)).message


def test_in_a_recurrent_model_clipping_is_missed() -> None:
    found = causes(last(ExplodingGradient(), *course(*GROWING, layer="LSTM")))

    assert found[Cause.NO_GRADIENT_CLIPPING] == found[Cause.EXPLODING_GRADIENT] == 0.5


@pytest.mark.parametrize(("name", "value", "cause"), [
    (Fact.MOMENTUM, 0.999, Cause.MOMENTUM_WRONG), (Fact.GRADIENTS_KEPT, 1.0, Cause.GRADIENTS_NOT_RESET),
])
def test_facts_speak_before_numbers(name: Fact, value: float, cause: Cause) -> None:
    found = causes(last(ExplodingGradient(), *course(*GROWING, facts={fact(name): value})))

    assert next(iter(found)) == cause


@pytest.mark.parametrize("points", [
    [(1.0, 2.0), (4.0, 1.9), (20.0, 1.5), (150.0, 1.0)],  # leaves a plateau
    [(1.0, 2.0), (4.0, 2.2), (3.0, 3.0), (150.0, 40.0)],  # a spike
    [(1.0, 2.0), (2.0, 2.2), (4.0, 3.0), (8.0, 40.0)],  # not far enough
    [(0.0, 2.0), (0.0, 2.2), (0.0, 3.0), (0.0, 40.0)],
    [(9.0, 2.0), *((norm / 100, loss / 100) for norm, loss in GROWING)],  # jumps after it had converged
    [(900.0, 1.0), *GROWING],  # had been higher
])
def test_other_courses_are_let_pass(points: list[tuple[float, float]]) -> None:
    assert subjects(ExplodingGradient(), *course(*points)) == [[]] * len(points)


def test_a_slow_rise_beneath_noise_is_seen_in_medians() -> None:
    points = [(1.17 ** (number // 2) * (1.5 if number % 2 else 1.0), 1.0 + number) for number in range(80)]

    found = subjects(ExplodingGradient(), *course(*points))

    assert found[39] == []
    assert ["time"] in found


def test_gradients_that_are_not_finite_are_left_to_the_rule_for_it() -> None:
    nan = step(0, {Key(Kind.GRADIENT, "a"): of_norm(math.inf), LOSS: 1.0})

    assert subjects(ExplodingGradient(), nan) == [[]]
    assert said(ExplodingGradient(), step(0, tensors(Kind.GRADIENT, a=1.0), skipped=True)) == [
        [Unjudged("no finite gradient was recorded")]]
