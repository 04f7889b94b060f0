"""NonFiniteInput: NaN in what was fed, and samples far out of range."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from barograph.model.cause import Cause
from barograph.model.facts import Fact, fact
from barograph.model.finding import Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.rules.base import Unjudged
from barograph.rules.fed import NonFiniteInput
from barograph.runs.reading.view import StepView
from literals import LOSS, causes, last, of_norm, said, step, subjects

BATCH, MASK, TARGET = Key(Kind.BATCH, "model[0]"), Key(Kind.BATCH, "model[1]"), Key(Kind.TARGET, "mse_loss")
FINE = of_norm(8.0, reach=3.0)
NAN = replace(FINE, nan=2)


def fed(number: int, batch: Summary = FINE, *, loss: float = 1.0, dtype: str = "float32") -> StepView:
    return step(number, {BATCH: batch, LOSS: loss}, dtypes=dtype)


def test_nan_in_a_batch_that_breaks_the_loss_is_named() -> None:
    found = last(NonFiniteInput(), fed(7, NAN, loss=math.nan))

    assert found.message == '2 NaN of 100 values in the batch of step 7 ("model[0]").'
    assert found.severity is None
    assert causes(found) == {Cause.NON_FINITE_INPUT: 0.9}
    assert found.evidence[0].key == BATCH


def test_nan_that_the_model_minds_is_doubtful() -> None:
    found = last(NonFiniteInput(), fed(7, NAN, loss=1.0))

    assert found.severity is Severity.DOUBTFUL
    assert found.message.endswith("the loss was finite all the same.")
    assert causes(found) == {Cause.NON_FINITE_INPUT: 0.5}


def test_nan_in_targets_is_named() -> None:
    assert subjects(NonFiniteInput(), step(0, {BATCH: FINE, TARGET: NAN})) == [["targets"]]


def test_what_was_fed_badly_in_a_step_without_its_batch_is_told_by_the_graph_of_the_loss() -> None:
    unseen = StepView.of(30, {LOSS: math.nan, fact(Fact.BAD_OPERATION): 1.0, fact(Fact.BAD_OPERATION, "data"): 1.0})
    (symptom,) = said(NonFiniteInput(), unseen)[-1]

    assert isinstance(symptom, Symptom)
    assert symptom.message == ("NaN or infinite values entered the loss of step 30 before any parameter: in its "
                               "batch, its targets, or a computation on them.")
    assert "barograph trace RUN --step 30" in symptom.remedy
    assert "division by a norm or standard deviation of 0" in symptom.remedy
    assert causes(symptom) == {"non-finite-input": 0.7}


def test_minus_infinity_beside_other_inputs_is_a_mask() -> None:
    masked = replace(FINE, neginf=50)

    assert subjects(NonFiniteInput(), step(0, {BATCH: FINE, MASK: masked})) == [[]]
    assert subjects(NonFiniteInput(), step(0, {BATCH: masked, MASK: FINE})) == [["batch"]]
    assert subjects(NonFiniteInput(), step(0, {BATCH: FINE, MASK: replace(FINE, posinf=1)})) == [["batch"]]


def reaching(*reaches: float, losses: float = 1.0) -> list[StepView]:
    return [fed(number, of_norm(8.0, reach=reach), loss=losses) for number, reach in enumerate(reaches)]


def test_a_value_a_thousand_times_the_usual_with_a_high_loss_is_a_bad_sample() -> None:
    far = fed(20, of_norm(8.0, reach=4000.0), loss=50.0)

    found = last(NonFiniteInput(), *reaching(*[3.0, 4.0] * 10), far)

    assert found.message == "A value in the batch is far out of range: 4,000, 1,140 times the usual maximum."
    assert (found.severity, found.subject) == (Severity.DOUBTFUL, "out of range")
    assert next(iter(causes(found))) == Cause.BAD_SAMPLE


@pytest.mark.parametrize("far", [
    fed(20, of_norm(8.0, reach=300.0), loss=50.0),  # a hundred times
    fed(20, of_norm(8.0, reach=4000.0), loss=1.0),  # the loss did not mind
    fed(20, of_norm(8.0, reach=4000.0), loss=50.0, dtype="int64"),  # names of tokens
])
def test_what_is_not_out_of_range_is_let_pass(far: StepView) -> None:
    assert subjects(NonFiniteInput(), *reaching(*[3.0, 4.0] * 10), far)[-1] == []


def test_a_few_batches_say_nothing_of_what_is_usual() -> None:
    found = said(NonFiniteInput(), *reaching(3.0, 3.0), fed(2, of_norm(8.0, reach=1e6), loss=99.0))

    assert [[type(item) for item in items] for items in found] == [[Unjudged]] * 3


def test_a_sample_out_of_range_in_evaluation_is_no_matter_of_training() -> None:
    far = step(20, {BATCH: of_norm(8.0, reach=1e6), LOSS: 50.0}, mode=Mode.EVAL)

    assert subjects(NonFiniteInput(), *reaching(*[3.0] * 20), far)[-1] == []


def test_the_next_batch_is_measured_by_the_usual_still() -> None:
    far = [fed(20 + number, of_norm(8.0, reach=1e5), loss=50.0) for number in range(3)]

    found = said(NonFiniteInput(), *reaching(*[3.0] * 20), *far)[20:]

    assert [[type(item) for item in items] for items in found] == [[Symptom]] * 3


def test_what_is_remembered_does_not_grow() -> None:
    memory: dict[str, object] = {}
    for number in range(200):
        list(NonFiniteInput().judge(fed(number), memory))

    assert {name: len(value) for name, value in memory["reaches"].items()} == {"model[0]": 50}  # type: ignore[attr-defined]
