"""LossMismatch."""

from __future__ import annotations

import pytest

from barograph.model.facts import Fact
from barograph.model.finding import Severity
from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.mismatch import MISMATCHES, LossMismatch
from barograph.runs.reading.view import StepView
from judging import causes, facts, said, symptoms

SOUND = {Fact.SOFTMAX_TWICE: 0.0, Fact.SOFTMAX_AXIS: 0.0, Fact.LOGITS_AS_PROBABILITIES: 0.0,
         Fact.PROBABILITIES_AS_LOGITS: 0.0, Fact.BROADCAST: 1.0, Fact.CLASS_NUMBERS_REGRESSED: 0.0}


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ({Fact.SOFTMAX_TWICE: 1.0}, "softmax-twice"),
        ({Fact.PROBABILITIES_AS_LOGITS: 1.0}, "softmax-twice"),
        ({Fact.SOFTMAX_AXIS: 1.0}, "softmax-wrong-axis"),
        ({Fact.LOGITS_AS_PROBABILITIES: 1.0}, "logits-as-probabilities"),
        ({Fact.BROADCAST: 64.0}, "broadcast-targets"),
        ({Fact.CLASS_NUMBERS_REGRESSED: 1.0}, "wrong-loss"),
    ],
)
def test_each_mismatch_is_a_finding_of_its_own(fault: dict[Fact, float], cause: str) -> None:
    (symptom,) = symptoms(LossMismatch(), [StepView.of(0, facts({**SOUND, **fault}))])

    assert causes(symptom) == [cause]
    assert symptom.subject == next(iter(fault)).value
    assert symptom.evidence[0].key == Key(Kind.FACT, symptom.subject)


@pytest.mark.parametrize(
    ("loss", "name"), [("cross_entropy", "softmax"), ("binary_cross_entropy_with_logits", "sigmoid")])
def test_what_is_applied_twice_is_named(loss: str, name: str) -> None:
    view = StepView.of(0, {Key(Kind.LOSS, loss): 0.5, **facts({**SOUND, Fact.SOFTMAX_TWICE: 1.0})})

    (symptom,) = symptoms(LossMismatch(), [view])

    assert symptom.message == f"{name.capitalize()} is applied twice: once by the model, once by the loss."
    assert symptom.remedy == f"Remove the {name} at the end of the model: the loss expects logits."


def test_with_losses_of_both_kinds_either_may_be_applied_twice() -> None:
    losses = {Key(Kind.LOSS, name): 0.5 for name in ("cross_entropy", "binary_cross_entropy_with_logits")}

    (symptom,) = symptoms(LossMismatch(), [StepView.of(0, {**losses, **facts({**SOUND, Fact.SOFTMAX_TWICE: 1.0})})])

    assert symptom.remedy == "Remove the softmax or sigmoid at the end of the model: the loss expects logits."


def test_a_sound_loss_is_well() -> None:
    assert said(LossMismatch(), [StepView.of(0, facts(SOUND))]) == [[]]


@pytest.mark.parametrize(
    "nearly",
    [{Fact.PROBABILITIES_AS_LOGITS: 0.6}, {Fact.LOGITS_AS_PROBABILITIES: 0.2}, {Fact.BROADCAST: 1.25}],
)
def test_what_chance_explains_is_let_pass(nearly: dict[Fact, float]) -> None:
    assert symptoms(LossMismatch(), [StepView.of(0, facts({**SOUND, **nearly}))]) == []


@pytest.mark.parametrize(
    ("both", "subject"),
    [({Fact.SOFTMAX_TWICE: 1.0, Fact.PROBABILITIES_AS_LOGITS: 1.0}, "softmax_twice"),
     ({Fact.SOFTMAX_AXIS: 1.0, Fact.LOGITS_AS_PROBABILITIES: 1.0}, "softmax_over_samples")],
)
def test_one_fault_seen_from_two_sides_is_told_once(both: dict[Fact, float], subject: str) -> None:
    (symptom,) = symptoms(LossMismatch(), [StepView.of(0, facts({**SOUND, **both}))])

    assert symptom.subject == subject


def test_whole_numbers_may_be_quantities() -> None:
    (symptom,) = symptoms(LossMismatch(), [StepView.of(0, facts({Fact.CLASS_NUMBERS_REGRESSED: 1.0}))])

    assert symptom.severity is Severity.DOUBTFUL


def test_without_facts_about_the_loss_nothing_is_judged() -> None:
    assert said(LossMismatch(), [StepView.of(0, facts({Fact.EPOCH: 1.0}))]) == [
        [Unjudged("no step recorded facts about the loss function's inputs")]
    ]


def test_each_mismatch_stands_once_in_the_table() -> None:
    assert len({item.name for item in MISMATCHES}) == len(MISMATCHES)
