"""LayerImbalance: layers that learn at speeds far apart."""

from __future__ import annotations

from barograph.model.cause import Cause
from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.layer_imbalance import LayerImbalance
from barograph.runs.reading.view import StepView
from literals import RATE, causes, last, said, step, subjects, tensors


def speeds(number: int, slow: float = 1e-7, fast: float = 1e-2, **rates: float) -> StepView:
    """Three layers of norm 1 that change by so much."""
    all_facts = {Key(Kind.LEARNING_RATE, name): rate for name, rate in rates.items()} or {RATE: 0.1}
    weights = tensors(Kind.WEIGHT, a__weight=1.0, b__weight=1.0, c__weight=1.0)
    updates = tensors(Kind.UPDATE, a__weight=slow, b__weight=fast / 10, c__weight=fast)
    return step(number, weights, updates, tensors(Kind.GRADIENT, a__weight=slow, c__weight=fast), all_facts)


def test_layers_at_speeds_far_apart_are_named() -> None:
    found = last(LayerImbalance(), speeds(20))

    assert found.message == (
        'Layers learn at very different speeds: "c" changes by 0.01 of its norm per step, "a" by 1e-7.')
    assert [item.key and item.key.path for item in found.evidence] == ["a.weight", "c.weight"]
    assert causes(found)[Cause.VANISHING_GRADIENT] == 0.5


def test_speeds_within_a_few_orders_are_let_pass() -> None:
    assert subjects(LayerImbalance(), speeds(20, slow=1e-5)) == [[]]


def test_a_slow_layer_among_slow_ones_is_let_pass() -> None:
    assert subjects(LayerImbalance(), speeds(20, slow=1e-9, fast=1e-4)) == [[]]


def test_learning_rates_of_groups_explain_what_they_are_meant_to() -> None:
    assert subjects(LayerImbalance(), speeds(20, group0=0.1, group1=1e-3)) == [[]]
    assert subjects(LayerImbalance(), speeds(20, group0=0.1, group1=0.1)) == [[""]]


def test_frozen_layers_and_normalisation_are_not_judged() -> None:
    key = Key(Kind.UPDATE, "a.weight")
    normed = step(20, tensors(Kind.WEIGHT, a__weight=1.0, b__weight=1.0, c__weight=1.0),
                  tensors(Kind.UPDATE, a__weight=1e-7, b__weight=1e-3, c__weight=1e-2), layers={key: "LayerNorm"})

    assert subjects(LayerImbalance(), speeds(20, slow=0.0), normed) == [[], []]


def test_a_gap_that_closes_is_let_pass() -> None:
    found = said(LayerImbalance(), speeds(20, slow=1e-8), speeds(40, slow=1e-7))

    assert found[1] == [Unjudged("the slowest layer is catching up")]


def test_the_first_steps_are_not_judged() -> None:
    assert said(LayerImbalance(), speeds(10)) == [
        [Unjudged("compares layers every 20 steps, from step 20 on")]]


def test_updates_and_weights_in_another_order_are_told_by_name() -> None:
    weights = tensors(Kind.WEIGHT, c__weight=1.0, a__weight=1.0, frozen__weight=1.0)
    updates = tensors(Kind.UPDATE, a__weight=1e-7, c__weight=1e-2)

    assert subjects(LayerImbalance(), step(20, weights, updates)) == [[""]]
