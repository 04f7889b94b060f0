"""A rule's parameters are checked when it is made, and a class that breaks the contract is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import pytest

from barograph.errors import BadRule, SettingsError, UnknownName
from barograph.model.finding import Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.rules.base import Memory, Rule, check_rule_class, parameter, rule_with
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class TooLoud(Rule):
    """X901: A weight is too large."""

    code: ClassVar[str] = "X901"
    name: ClassVar[str] = "too-loud"
    severity: ClassVar[Severity] = Severity.DOUBTFUL
    needs = (Selection(kinds=frozenset({Kind.WEIGHT})),)

    threshold: float = parameter(10.0, "Largest magnitude that is let pass.", above=0.0, at_most=100.0)
    steps: int = parameter(5, "Steps.", at_least=1)
    strict: bool = False
    words: tuple[str, ...] = parameter(("a",), "Words.", choices=("a", "b"))

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom]:
        return ()


def test_a_rule_has_its_defaults_and_those_every_rule_has() -> None:
    assert TooLoud().parameters == {
        "patience": 1, "recovery": 3, "threshold": 10.0, "steps": 5, "strict": False, "words": ["a"],
    }


def test_a_table_of_settings_makes_the_rule_with_plain_types() -> None:
    rule = rule_with(TooLoud, {"threshold": 3, "words": ["b", "a"], "patience": 2})

    assert rule == TooLoud(threshold=3.0, words=("b", "a"), patience=2)
    assert rule == rule_with(TooLoud, {"threshold": 3, "words": "b, a", "patience": 2})
    assert isinstance(rule.parameters["threshold"], float)


def test_a_rule_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        TooLoud().threshold = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"threshold": -1.0}, "too-loud.threshold is -1; it must be above 0 and at most 100."),
        ({"threshold": 101}, "too-loud.threshold is 101; it must be above 0 and at most 100."),
        ({"threshold": float("nan")}, "too-loud.threshold is nan; it must be a number."),
        ({"threshold": "10"}, "too-loud.threshold is '10'; it must be a number."),
        ({"threshold": True}, "too-loud.threshold is True; it must be a number."),
        ({"steps": 1.5}, "too-loud.steps is 1.5; it must be an integer."),
        ({"steps": 0}, "too-loud.steps is 0; it must be at least 1."),
        ({"strict": 1}, "too-loud.strict is 1; it must be true or false."),
        ({"words": True}, "too-loud.words is True; it must be a list of strings."),
        ({"words": {"a": 1}},
         "too-loud.words is {'a': 1}; it must be a list of strings."),
        ({"words": [3]}, 'too-loud.words is "3". There are: a, b.'),
        ({"words": "a,c"}, 'too-loud.words is "c". There are: a, b.'),
        ({"words": ["c"]}, 'too-loud.words is "c". There are: a, b.'),
        ({"patience": 0}, "too-loud.patience is 0; it must be at least 1."),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        rule_with(TooLoud, values)

    assert str(caught.value) == message


def test_a_parameter_that_does_not_exist_brings_up_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r'"treshold" is not a parameter of too-loud\. Did you mean "threshold"\?'):
        rule_with(TooLoud, {"treshold": 1.0})


def test_a_class_that_can_be_used_is_returned() -> None:
    assert check_rule_class(TooLoud) is TooLoud


def _without(attribute: str) -> type[Rule]:
    names = {"code", "name", "severity", "needs", "judge"} - {attribute}
    body = {name: value for name, value in vars(TooLoud).items() if name in names}
    return type("Half", (Rule,), {**body, "__module__": "mine"})


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (3, "3 is not a rule: inherit from barograph.Rule."),
        (_without("code"), "mine.Half has no code: add this class attribute."),
        (_without("severity"), "mine.Half has no severity: add this class attribute."),
        (_without("judge"), "mine.Half does not define judge."),
        (_without("needs"), "mine.Half does not define needs."),
    ],
)
def test_a_class_that_is_no_rule_is_refused(candidate: object, message: str) -> None:
    with pytest.raises(BadRule) as caught:
        check_rule_class(candidate)

    assert str(caught.value) == message


@pytest.mark.parametrize("code", ["x901", "X90", "X9011", "901X", 901, "É901"])
def test_a_code_is_a_capital_letter_and_three_digits(code: object) -> None:
    with pytest.raises(BadRule, match="must be a capital letter and three digits"):
        check_rule_class(type("Coded", (TooLoud,), {"code": code}))


def test_parameters_without_a_dataclass_would_be_ignored_and_are_refused() -> None:
    class Forgot(TooLoud):
        ceiling: float = 3.0

    with pytest.raises(BadRule, match=r"has parameters \(ceiling\) but is not a dataclass: decorate it with"):
        check_rule_class(Forgot)


def test_a_parameter_of_a_type_that_no_settings_file_can_hold_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd(TooLoud):
        shape: complex = 1j

    with pytest.raises(BadRule, match=r"too-loud.shape is declared as .*complex"):
        Odd()
