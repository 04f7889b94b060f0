"""AllZero and TensorVariance."""

from __future__ import annotations

import pytest

from barograph.model.cause import Cause
from barograph.model.finding import Severity
from barograph.model.key import Key, Kind
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.values import AllZero, TensorVariance
from barograph.runs.reading.view import StepView
from literals import causes, last, of_norm, said, step, subjects, tensors


def weights(number: int, *, skipped: bool = False, **norms: float) -> StepView:
    return step(number, tensors(Kind.WEIGHT, **norms), skipped=skipped)


def test_weights_that_became_all_zero_are_named() -> None:
    views = [weights(0, a=1.0, b=1.0), *(weights(number, a=1.0, b=0.0) for number in range(10, 110, 10))]

    found = last(AllZero(), *views)

    assert subjects(AllZero(), *views)[-2] == []
    assert found.message == '1 of 2 weight tensors are all zero over 10 recorded steps: "b".'
    assert causes(found) == {Cause.WEIGHT_DECAY_TOO_LARGE: 0.5}
    assert found.evidence[0].text == "100 of 100 values are zero"


def test_what_begins_at_zero_is_let_be_until_it_has_moved() -> None:
    views = [weights(number, a=1.0, bias=0.0) for number in range(30)]

    assert subjects(AllZero(), *views) == [[]] * 30


def test_a_tensor_that_is_zero_now_and_then_is_well() -> None:
    views = [weights(number, a=1.0, b=float(number % 5 == 0)) for number in range(40)]

    assert subjects(AllZero(), *views) == [[]] * 40


def test_one_step_is_enough_where_that_is_asked_as_amazon_did() -> None:
    assert subjects(AllZero(num_steps=1, kinds=("weight",)), weights(0, a=1.0), weights(1, a=0.0)) == [[], ["weight"]]


def test_a_share_of_zeros_can_be_asked_for() -> None:
    sparse = step(1, {Key(Kind.WEIGHT, "a"): of_norm(1.0, zeros=95)})

    assert subjects(AllZero(threshold=0.9, num_steps=1), weights(0, a=1.0), sparse)[-1] == ["weight"]
    assert subjects(AllZero(threshold=0.96, num_steps=1), weights(0, a=1.0), sparse)[-1] == []


@pytest.mark.parametrize(("layer", "expected"), [("GELU", ["output"]), ("ReLU", [])])
def test_the_outputs_of_relu_are_left_to_their_own_rule(layer: str, expected: list[str]) -> None:
    key = Key(Kind.OUTPUT, "act")
    views = [step(number, {key: of_norm(1.0 if number == 0 else 0.0)}, layers={key: layer}) for number in range(11)]

    assert subjects(AllZero(), *views)[-1] == expected


@pytest.mark.parametrize(("path", "dtype", "expected"), [
    ("model[0]", "float32", ["batch"]), ("model[1]", "float32", []), ("model[0]", "int64", []),
])
def test_a_batch_of_zeros_is_sick_from_the_start(path: str, dtype: str, expected: list[str]) -> None:
    views = [step(number, {Key(Kind.BATCH, path): of_norm(0.0)}, dtypes=dtype) for number in range(10)]

    assert subjects(AllZero(), *views)[-1] == expected


def test_a_batch_of_zeros_is_worse_than_a_layer_of_them() -> None:
    views = [step(number, {Key(Kind.BATCH, "model[0]"): of_norm(0.0)}) for number in range(10)]

    assert last(AllZero(), *views).severity is Severity.COSTLY


def test_steps_that_do_not_train_are_not_judged() -> None:
    assert said(AllZero(), weights(0, skipped=True, a=0.0)) == [[Unjudged("no training step was recorded")]]
    assert said(AllZero(kinds=("weight",)), step(0, tensors(Kind.OUTPUT, a=1.0)))[0] == [
        Unjudged("no weight was recorded")]


def test_variance_is_held_against_what_was_set() -> None:
    view = step(0, tensors(Kind.WEIGHT, a=10.0, b=1.0))  # of 100 elements: variance 1 and 0.01

    assert subjects(TensorVariance(), view) == [[]]
    assert subjects(TensorVariance(max_threshold=0.5), view) == [["weight too far"]]
    assert subjects(TensorVariance(min_threshold=0.5), view) == [["weight too little"]]
    assert last(TensorVariance(max_threshold=0.5), view).message == (
        'The variance of 1 of 2 weight tensors is too high: the variance of "a" is 1.')
    assert next(iter(causes(last(TensorVariance(max_threshold=0.5), view)))) == Cause.INITIALIZATION_SCALE


def test_a_tensor_of_one_element_has_no_variance_to_judge() -> None:
    view = step(0, {Key(Kind.WEIGHT, "scale"): of_norm(1.0, count=1)})

    assert said(TensorVariance(min_threshold=0.5), view) == [
        [Unjudged("no finite tensor with more than one element was recorded")]]


@pytest.mark.parametrize(("path", "dtype"), [("seed", "int64"), ("dropout.seed_generator_state", ""), ("w", "uint32")])
def test_the_state_of_a_random_generator_has_no_variance_to_judge(path: str, dtype: str) -> None:
    key = Key(Kind.WEIGHT, path)
    wide = Summary(count=2, min=0.0, max=4e9, sum=4e9, sum_sq=1.6e19, sum_abs=4e9)

    assert list(TensorVariance().judge(StepView.of(0, {key: wide}, dtypes={key: dtype}), {})) == []
    assert list(TensorVariance().judge(StepView.of(0, {Key(Kind.WEIGHT, "fc"): wide}), {})) != []
