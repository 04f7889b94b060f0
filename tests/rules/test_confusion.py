"""Confusion."""

from __future__ import annotations

import random

import pytest

from barograph.model.finding import Severity
from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.confusion import Confusion
from barograph.runs.reading.view import StepView
from judging import causes, confusion, evaluated, said, symptoms

AMAZONS = Confusion(category_no=10, min_diag=0.9, max_off_diag=0.1, samples=1)


def seen(pairs: dict[tuple[int, int], int]) -> list[StepView]:
    return [evaluated(100, confusion(pairs))]


def test_a_hundred_labels_told_perfectly_are_well() -> None:
    draw = random.Random(0)
    names = [draw.randrange(10) for _ in range(100)]

    assert said(AMAZONS, seen({(name, name): names.count(name) for name in names})) == [[]]


def test_a_single_wrong_answer_of_ten_fires_with_amazons_numbers() -> None:
    (symptom,) = symptoms(AMAZONS, seen({(name, 7 if name == 4 else name): 1 for name in range(10)}))

    assert symptom.message == ("The model predicts class 7 for 100% of the 1 samples of class 4; 0% are correct, "
                               "against 100% in the other classes.")
    assert symptom.subject == "class 4"


def test_by_default_a_class_must_hardly_ever_be_right() -> None:
    poor = seen({(0, 0): 40, (1, 1): 20, (1, 0): 20, (2, 2): 40})
    lost = seen({(0, 0): 40, (1, 0): 40, (2, 2): 40})

    assert symptoms(Confusion(), poor) == []
    assert [item.subject for item in symptoms(Confusion(), lost)] == ["class 1"]


@pytest.mark.parametrize(("shift", "said"), [(1, "+1"), (-1, "-1")])
def test_answers_beside_their_labels_all_along_are_shifted(shift: int, said: str) -> None:
    pairs = {(name, (name + shift) % 10): 36 for name in range(10)} | {(name, 0): 4 for name in range(1, 9)}

    (symptom,) = symptoms(Confusion(), seen(pairs))

    assert symptom.subject == "shifted"
    assert f"predictions are shifted by {said} from the labels" in symptom.message
    assert (symptom.severity, causes(symptom)) == (Severity.COSTLY, ["labels-off-by-one"])


def test_two_classes_that_are_predicted_as_one_another_are_exchanged() -> None:
    pairs = {(name, name): 40 for name in range(10)} | {(1, 1): 5, (1, 7): 35, (7, 7): 5, (7, 1): 35}

    (symptom,) = symptoms(Confusion(), seen(pairs))

    assert symptom.subject == "exchanged"
    assert symptom.message == ("In evaluation, the model predicts class 1 as 7 and 7 as 1: it tells them apart, but "
                               "they have other numbers than in training.")
    assert (symptom.severity, causes(symptom)) == (Severity.COSTLY, ["labels-unrelated"])


def test_a_class_that_is_taken_for_another_without_the_reverse_is_not_exchanged() -> None:
    pairs = {(name, name): 40 for name in range(4)} | {(1, 1): 8, (1, 2): 32, (2, 2): 8, (2, 3): 32}

    assert symptoms(Confusion(), seen(pairs)) == []


def test_a_circle_in_a_model_that_tells_few_classes_apart_is_luck() -> None:
    few = {(name, name % 2) for name in range(10)} - {(0, 0), (1, 1)} | {(0, 1), (1, 0)}

    assert symptoms(Confusion(), seen(dict.fromkeys(few, 40))) == []


def test_a_circle_of_all_classes_names_the_first_three() -> None:
    pairs = dict.fromkeys(enumerate([3, 7, 5, 9, 1, 0, 8, 2, 4, 6]), 40)

    (symptom,) = symptoms(Confusion(), seen(pairs))

    assert "predicts class 0 as 3, 1 as 7, 2 as 5 and 7 more:" in symptom.message


@pytest.mark.parametrize(("predictions", "subject"), [((0, 2, 1), "exchanged"), ((1, 2, 3), "shifted")])
def test_classes_in_other_places_count_only_once_the_model_has_learned(
    predictions: tuple[int, ...], subject: str
) -> None:
    def subjects_after(loss: float) -> list[str]:
        training = [StepView.of(step, {Key(Kind.LOSS, "cross_entropy"): loss}) for step in range(20)]
        evaluation = seen(dict.fromkeys(enumerate(predictions), 40))
        return [item.subject for item in symptoms(Confusion(), [*training, *evaluation])]

    assert (subjects_after(1.0), subjects_after(0.1)) == ([], [subject])


def test_a_model_that_answers_one_class_only_is_not_shifted() -> None:
    assert symptoms(Confusion(), seen({(name, 0): 40 for name in range(10)})) == []


def test_two_classes_of_which_one_is_always_the_answer_are_told_where_that_lasts() -> None:
    views = [evaluated(step, confusion({(0, 1): 40, (1, 1): 60})) for step in range(30)]

    found = said(Confusion(alone=10), views)

    assert [len(each) for each in found] == [0] * 9 + [1] * 21
    assert "The model predicts class 1 for 100%" in found[9][0].message


def test_an_evaluation_with_several_answers_has_them_counted_anew() -> None:
    same, several = confusion({(0, 1): 40, (1, 1): 60}), confusion({(0, 0): 30, (0, 1): 10, (1, 1): 60})
    views = [evaluated(step, several if step == 5 else same) for step in range(12)]

    assert said(Confusion(alone=8), views) == [[]] * 12


def test_small_classes_and_training_are_not_judged() -> None:
    reason = [Unjudged("no evaluation was recorded with 20 samples of one class")]

    assert said(Confusion(), seen({(0, 1): 5})) == [reason]
    assert said(Confusion(), [StepView.of(0, confusion({(0, 1): 50}))]) == [reason]
