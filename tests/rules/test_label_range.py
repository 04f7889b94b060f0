"""LabelRange."""

from __future__ import annotations

from barograph.model.facts import Fact
from barograph.model.finding import Severity
from barograph.model.key import Key
from barograph.rules.base import Unjudged
from barograph.rules.label_range import LabelRange
from barograph.runs.reading.view import StepView
from judging import causes, facts, labels, said, steps_of, symptoms


def seen(counts: dict[int, int], classes: float, size: float = 64.0) -> dict[Key, float]:
    all_facts = facts({Fact.CLASSES: classes, Fact.LABEL_MIN: float(min(counts)), Fact.LABEL_MAX: float(max(counts)),
                  Fact.BATCH_SIZE: size})
    return {**labels(counts), **all_facts}


def test_a_label_beyond_the_classes_is_breaking() -> None:
    (symptom,) = symptoms(LabelRange(), [StepView.of(0, seen(dict.fromkeys(range(11), 6), 10.0))])

    assert symptom.message == "Label 10 is out of range: the model has 10 classes, 0 to 9."
    assert (symptom.severity, causes(symptom)) == (Severity.BREAKING, ["labels-off-by-one"])
    assert symptom.causes[0].weight == 0.9


def test_a_class_0_that_alone_never_comes_is_told() -> None:
    views = [StepView.of(step, seen(dict.fromkeys(range(1, 11), 6), 11.0)) for step in range(6)]

    first, *_ = symptoms(LabelRange(), views)

    assert steps_of(LabelRange(), views)[0] == 3
    assert first.message == "Class 0 does not occur in 240 labels; all other classes of 11 do."


def test_classes_that_all_come_are_well() -> None:
    views = [StepView.of(step, seen(dict.fromkeys(range(10), 6), 10.0)) for step in range(30)]

    assert said(LabelRange(), views)[-1] == []
    assert symptoms(LabelRange(), views) == []


def test_an_output_that_is_wider_than_the_data_needs_is_let_pass() -> None:
    views = [StepView.of(step, seen({0: 30, 1: 30}, 1000.0)) for step in range(30)]
    upper = [StepView.of(step, seen(dict.fromkeys(range(9), 7), 10.0)) for step in range(30)]

    assert symptoms(LabelRange(), views) == []
    assert symptoms(LabelRange(), upper) == []


def test_padding_that_is_never_a_label_is_let_pass_among_words() -> None:
    views = [StepView.of(step, seen(dict.fromkeys(range(1, 30), 50), 30.0, 16.0)) for step in range(30)]

    assert said(LabelRange(), views)[-1] == [Unjudged("with labels per word or pixel, not all classes need to occur")]


def test_without_the_number_of_classes_nothing_is_judged() -> None:
    assert said(LabelRange(), [StepView.of(0, labels({1: 5}))]) == [
        [Unjudged("no training step recorded labels and the number of classes")]
    ]
