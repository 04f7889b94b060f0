"""WeightDecay: decay that is stronger than the gradient."""

from __future__ import annotations

import pytest

from barograph.model.cause import Cause
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.decay import WeightDecay
from barograph.runs.reading.view import StepView
from literals import LOSS, RATE, causes, last, said, step, subjects, tensors


def shrinking(
    *norms: float, decay: float | None = 1.0, decoupled: float = 0.0, gradient: float = 0.1, update: float = 0.1,
    losses: tuple[float, ...] = (), rate: float = 0.1,
) -> list[StepView]:
    all_facts = {} if decay is None else {fact(Fact.WEIGHT_DECAY, "group0"): decay, fact(Fact.DECOUPLED): decoupled}
    return [step(10 * number, tensors(Kind.WEIGHT, a=norm), tensors(Kind.GRADIENT, a=gradient),
                 tensors(Kind.UPDATE, a=update), {LOSS: losses[number] if losses else 2.3, RATE: rate},
                 all_facts if number == 0 else {})
            for number, norm in enumerate(norms)]


def test_weights_that_shrink_under_a_decay_stronger_than_the_gradient_are_named() -> None:
    found = last(WeightDecay(), *shrinking(10.0, 7.0, 4.0))

    assert found.message == (
        "Weights have shrunk to 40% of their initial norm, and the weight decay of 1 pulls on them 40 times as "
        "strongly as the optimizer moves them.")
    assert found.remedy == "Lower the weight decay from 1 to 0.01 and start again."
    assert causes(found) == {Cause.WEIGHT_DECAY_TOO_LARGE: 0.9}


def test_a_step_whose_update_was_not_recorded_says_nothing_of_adamw() -> None:
    views = shrinking(10.0, 4.0, 3.5, decay=10.0, decoupled=1.0, update=4.0, rate=1.0)
    bare = step(15, tensors(Kind.WEIGHT, a=3.9), tensors(Kind.GRADIENT, a=0.1), {LOSS: 2.3, RATE: 1.0})

    assert said(WeightDecay(), *views[:2], bare)[-1] == [
        Unjudged("no gradient or update was recorded with the weights")]
    assert subjects(WeightDecay(), *views[:2], bare, views[2])[-1] == [""]


def test_of_adamw_the_update_is_what_it_is_held_against() -> None:
    assert subjects(WeightDecay(), *shrinking(10.0, 4.0, decay=10.0, decoupled=1.0, update=4.0, rate=1.0))[-1] == [""]
    assert subjects(WeightDecay(), *shrinking(10.0, 4.0, decay=0.1, decoupled=1.0, update=1.0))[-1] == []


@pytest.mark.parametrize("views", [
    shrinking(10.0, 7.0, 6.0),  # not far
    shrinking(10.0, 4.0, 4.5),  # no more
    shrinking(10.0, 7.0, 4.0, gradient=100.0),  # held by the gradient
    shrinking(10.0, 7.0, 4.0, losses=(2.3, 1.0, 0.5)),  # learning
    shrinking(10.0, 7.0, 4.0, decay=0.0),
])
def test_weights_that_shrink_otherwise_are_let_pass(views: list[StepView]) -> None:
    assert subjects(WeightDecay(), *views)[-1] == []


def test_a_decay_that_takes_a_hundredth_in_each_step_is_named_whatever_the_loss() -> None:
    views = shrinking(10.0, 4.0, 4.1, decay=20.0, decoupled=1.0, rate=1e-3, losses=(2.3, 1.0, 0.9))

    assert subjects(WeightDecay(), *views)[-1] == [""]


def test_a_finding_stays_open_where_weights_rest_at_next_to_nothing() -> None:
    assert said(WeightDecay(), *shrinking(10.0, 1.0, 1.01))[-1] == [
        Unjudged("the weights are small and the loss has not improved, but they no longer shrink")]
    assert said(WeightDecay(), *shrinking(10.0, 1.0, 1.01, gradient=3.0))[-1] == [
        Unjudged("the weights are small and the loss has not improved, but they no longer shrink")]
    assert said(WeightDecay(), *shrinking(10.0, 1.0, 1.01, gradient=100.0))[-1] == []


def test_without_knowing_the_decay_nothing_is_judged() -> None:
    assert said(WeightDecay(), *shrinking(10.0, 4.0, decay=None))[-1] == [
        Unjudged("no weight decay of the optimizer was recorded")]


def penalised(
    *norms: float, strength: float = 0.1, losses: tuple[float, ...] = (), gradient: float | None = None,
) -> list[StepView]:
    """Return steps of a loss of 2.3 that a penalty λ‖w‖² is added to, whose gradient is all there is."""
    return [step(10 * number, tensors(Kind.WEIGHT, a=norm),
                 tensors(Kind.GRADIENT, a=2 * strength * norm if gradient is None else gradient),
                 {LOSS: (losses[number] if losses else 2.3) + strength * norm**2,
                  Key(Kind.LOSS, "regularization"): strength * norm**2, RATE: 0.1})
            for number, norm in enumerate(norms)]


def test_weights_that_shrink_under_a_penalty_on_them_are_named() -> None:
    found = last(WeightDecay(), *penalised(10.0, 7.0, 4.0))

    assert found.message == ("Weights have shrunk to 40% of their initial norm, and the gradient of the weight "
                             "penalty was up to 1 times the total gradient; the loss without it is 2.3, less than "
                             "10% below its start.")
    assert causes(found) == {Cause.WEIGHT_DECAY_TOO_LARGE: 0.9}


def test_weights_that_a_penalty_keeps_at_nothing_stay_named() -> None:
    assert subjects(WeightDecay(), *penalised(10.0, 4.0, 0.1, 0.11, 0.1))[-1] == [""]


@pytest.mark.parametrize("views", [
    penalised(10.0, 7.0, 6.0),  # not far
    penalised(10.0, 7.0, 4.0, gradient=100.0),  # a penalty that is nothing beside the gradient
    penalised(10.0, 7.0, 4.0, losses=(2.3, 1.5, 0.5)),  # learning, once the penalty is taken off
    penalised(1.0, 1.5, 2.0, strength=1e-4, gradient=1.0),  # as it is meant
])
def test_weights_under_a_penalty_that_does_no_harm_are_let_pass(views: list[StepView]) -> None:
    assert subjects(WeightDecay(), *views)[-1] == []
