"""OptimizerState: spoilt, forgotten, stale, thrown up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barograph.model.cause import Cause
from barograph.model.finding import Severity
from barograph.model.key import Key, Kind
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.optimizer_state import OptimizerState
from barograph.runs.reading.view import StepView
from literals import RATE, causes, last, of_norm, said, step, subjects

GRADIENT, WEIGHT = Key(Kind.GRADIENT, "a.weight"), Key(Kind.WEIGHT, "a.weight")
MEAN, SQUARES, MOMENTUM = (Key(Kind.OPTIMIZER_STATE, f"a.weight[{name}]")
                           for name in ("exp_avg", "exp_avg_sq", "momentum_buffer"))
FINE = of_norm(1.0)


def squares(total: float) -> Summary:
    return Summary(count=100, min=0.0, max=total, sum=total, sum_sq=total**2, sum_abs=total)


def adam(number: int, gradient: float = 1.0, *, mean: float, square: float, dtype: str = "float32") -> StepView:
    return step(number, {GRADIENT: of_norm(gradient), WEIGHT: FINE, MEAN: of_norm(mean), SQUARES: squares(square),
                         RATE: 0.001}, dtypes=dtype)


def healthy(numbers: list[int]) -> list[StepView]:
    return [adam(number, 1.0 + 0.1 * (number % 3), mean=0.3 + 0.01 * (number % 7), square=0.1 + 0.001 * number)
            for number in numbers]


STEPS = [5, 12, 14, 16, 50, 100, 200, 300]


def test_states_that_follow_the_gradients_are_well() -> None:
    assert subjects(OptimizerState(), *healthy(STEPS)) == [[]] * len(STEPS)


def test_an_infinite_second_moment_is_the_end() -> None:
    view = step(7, {GRADIENT: FINE, WEIGHT: FINE, SQUARES: replace(squares(1.0), posinf=3)})

    found = last(OptimizerState(), view)

    assert (found.subject, found.severity) == ("not finite", Severity.BREAKING)
    assert found.message.startswith('"a.weight[exp_avg_sq]" is not finite, although the weights are')


def test_a_state_that_is_spoilt_with_its_weight_is_left_to_the_rule_for_it() -> None:
    view = step(7, {GRADIENT: FINE, WEIGHT: replace(FINE, nan=3), SQUARES: replace(squares(1.0), nan=3)})

    assert said(OptimizerState(), view) == [[Unjudged("weights are not finite, and neither is the optimizer's state")]]


def test_squares_that_underflow_are_named() -> None:
    found = last(OptimizerState(), adam(5, 1e-5, mean=1e-6, square=0.0, dtype="float16"))

    assert found.subject == "squares lost"
    assert next(iter(causes(found))) == Cause.FP16_UNDERFLOW
    assert "(float16) is exactly zero" in found.message


def test_states_that_stand_while_gradients_come_are_stale() -> None:
    views = [adam(number, 1.0 + number, mean=0.3, square=0.1) for number in (100, 200, 300)]

    found = last(OptimizerState(), *views)

    assert found.subject == "stale"
    assert "did not change from step 100 to 300, although gradients reached them" in found.message
    assert subjects(OptimizerState(), *(adam(number, 0.0, mean=0.3, square=0.1) for number in STEPS)) == [[]] * 8


def test_an_adam_made_anew_at_each_step_forgets() -> None:
    views = [adam(number, norm, mean=0.1 * norm, square=0.001 * norm**2)
             for number, norm in ((12, 1.0), (14, 1.3), (16, 0.7))]

    found = last(OptimizerState(), *views)

    assert found.subject == "forgotten"
    assert causes(found) == {Cause.OPTIMIZER_STATE_LOST: 0.8}


@pytest.mark.parametrize(("shares", "expected"), [((1.0, 1.0, 1.0), ["forgotten"]), ((1.0, 1.2, 1.1), []),
                                                  ((10.0, 10.0, 10.0), [])])
def test_a_momentum_that_is_the_gradient_is_as_new(shares: tuple[float, ...], expected: list[str]) -> None:
    views = [step(number, {GRADIENT: of_norm(norm), WEIGHT: FINE, MOMENTUM: of_norm(norm * share)})
             for (number, norm), share in zip(((12, 1.0), (14, 1.3), (16, 0.7)), shares, strict=True)]

    assert subjects(OptimizerState(), *views)[-1] == expected


def test_a_gradient_that_is_the_same_for_long_makes_no_state_look_new() -> None:
    views = [adam(number, 1.0, mean=1.0 - 1e-6 * number, square=0.99 + 1e-6 * number) for number in (500, 600, 700)]

    assert subjects(OptimizerState(), *views) == [[]] * 3


def test_a_second_moment_thrown_up_by_one_step_is_named_when_the_gradient_is_back() -> None:
    thrown = [adam(400, 1e3, mean=100.0, square=1e4), adam(500, 1.0, mean=0.3, square=9e3)]
    decayed = [adam(9000, 1.0, mean=0.31, square=0.5)]

    found = subjects(OptimizerState(), *healthy(STEPS), *thrown, *decayed)[-3:]

    assert found == [[], ["thrown up"], []]


def test_without_state_nothing_is_judged() -> None:
    assert said(OptimizerState(), step(0, {GRADIENT: FINE, WEIGHT: FINE})) == [
        [Unjudged("no step recorded optimizer state and gradients (plain SGD has no state)")]]
