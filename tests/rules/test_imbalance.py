"""ClassImbalance."""

from __future__ import annotations

import pytest

from barograph.model.facts import Fact
from barograph.model.step import Mode, Step
from barograph.rules.base import Unjudged
from barograph.rules.imbalance import ClassImbalance
from barograph.runs.reading.view import StepView
from judging import causes, confusion, evaluated, facts, labels, said, steps_of, symptoms

RARE = {0: 60, 1: 4}


def trained(counts: dict[int, int], pairs: dict[tuple[int, int], int] | None = None, steps: int = 20) -> list[StepView]:
    return [StepView.of(step, {**labels(counts), **confusion(pairs or {})}) for step in range(steps)]


def test_nine_hundred_and_ninety_to_ten_fires_at_step_3() -> None:
    (symptom,) = symptoms(ClassImbalance(), [StepView.of(3, labels({0: 990, 1: 10}))])

    assert symptom.message == "Class 1 has 1% of 1000 labels, class 0 has 99%."
    assert symptom.evidence[0].value == 99.0
    assert "which is 50 for class 1 and 0.505 for class 0" in symptom.remedy
    assert causes(symptom) == ["class-imbalance"]


def test_a_rare_class_that_is_ignored_is_told_with_the_answers() -> None:
    first, *_ = symptoms(ClassImbalance(), trained(RARE, {(0, 0): 60, (1, 0): 4}))

    assert "100% of the samples of class 1 are predicted wrongly" in first.message
    assert first.causes[0].weight == 0.85


def test_a_rare_class_that_is_answered_well_is_no_fault() -> None:
    assert steps_of(ClassImbalance(), trained(RARE, {(0, 0): 58, (0, 1): 2, (1, 1): 3, (1, 0): 1})) == []


def test_where_the_loss_weighs_already_only_an_evaluation_tells() -> None:
    weighted = facts({Fact.LOSS_WEIGHTED: 1.0})
    views = [StepView.of(step, {**labels(RARE), **confusion({(0, 0): 60, (1, 0): 4}), **(weighted if not step else {})})
             for step in range(20)]
    assert said(ClassImbalance(), views)[-1] == [
        Unjudged("the loss already weights classes or samples; an evaluation is needed to judge whether that is enough")
    ]
    ignored = [evaluated(20, {**labels(RARE), **confusion({(0, 0): 600, (1, 0): 40})})]
    later = [StepView.of(step, labels(RARE)) for step in range(20, 24)]
    assert steps_of(ClassImbalance(), views + ignored + later) != []


def test_before_anything_is_told_well_nothing_is_said_of_the_rare() -> None:
    views = trained({0: 60, 1: 60, 2: 4}, {(0, 1): 60, (1, 0): 60, (2, 0): 4})

    assert said(ClassImbalance(), views)[-1] == [Unjudged("the frequent classes are not predicted well yet")]


def test_an_even_data_set_is_well() -> None:
    assert steps_of(ClassImbalance(), trained(dict.fromkeys(range(10), 6))) == []


def test_luck_with_few_labels_makes_no_class_rare() -> None:
    assert steps_of(ClassImbalance(), [StepView.of(10, labels({0: 80, 1: 40, 2: 6}))]) == []


def test_words_and_pixels_are_not_judged() -> None:
    size = facts({Fact.BATCH_SIZE: 8.0})
    views = [StepView.of(step, {**labels({0: 6000, 1: 10}), **size}) for step in range(3)]

    assert said(ClassImbalance(), views)[-1] == [
        Unjudged("samples have many labels each, for which any class frequency is usual")
    ]


def test_letters_of_which_some_are_rare_are_no_fault() -> None:
    letters = {0: 30, **dict.fromkeys(range(1, 27), 4), 27: 1}
    pairs = {(name, 0): count for name, count in letters.items()}

    assert steps_of(ClassImbalance(), trained(letters, pairs)) == []


@pytest.mark.parametrize(("samples", "fires"), [(500, []), (200, [3])])
def test_it_waits_for_so_many_labels(samples: int, fires: list[int]) -> None:
    views = [StepView.of(step, labels({0: 62, 1: 2})) for step in range(4)]

    assert steps_of(ClassImbalance(samples=samples), views) == fires


def test_one_class_that_the_evaluation_never_tells_is_named() -> None:
    pairs = {(name, name if name != 3 else 5): 40 for name in range(10)}
    training = trained(dict.fromkeys(range(10), 6))
    evaluation = evaluated(20, {**labels(dict.fromkeys(range(10), 40)), **confusion(pairs)})

    (symptom,) = symptoms(ClassImbalance(), [*training, evaluation])

    assert symptom.message.startswith("100% of the samples of class 3 are predicted wrongly")


def test_a_model_that_is_still_learning_is_let_pass() -> None:
    pairs = {(name, 0): 40 for name in range(10)}
    evaluation = evaluated(20, {**labels(dict.fromkeys(range(10), 40)), **confusion(pairs)})

    assert symptoms(ClassImbalance(), [*trained(dict.fromkeys(range(10), 6)), evaluation]) == []


def test_predictions_are_not_judged() -> None:
    view = StepView.of(Step(0, 0, "", Mode.PREDICT), labels({0: 990, 1: 10}))

    assert symptoms(ClassImbalance(), [view]) == []
