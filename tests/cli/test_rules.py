"""`barograph rules`: the list and the pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.rules.builtin import RULES
from barograph.rules.gradients import VanishingGradient
from barograph.rules.page import page_from_rule

Call = Callable[..., Any]

MY_RULE = '''
from dataclasses import dataclass
from typing import ClassVar
import barograph


@dataclass(frozen=True, kw_only=True)
class Mine(barograph.Rule):
    """X901: Something of mine is wrong."""

    code: ClassVar[str] = "X901"
    name: ClassVar[str] = "mine"
    severity: ClassVar[barograph.Severity] = barograph.Severity.NOTE
    needs = (barograph.Selection(kinds=frozenset({barograph.Kind.LOSS})),)

    def judge(self, view, memory):
        return ()
'''


def test_every_rule_is_listed_with_its_severity_and_fault(call: Call) -> None:
    said = call("rules")

    assert said.lines[0].split() == ["code", "name", "severity", "what", "is", "wrong"]
    for rule in RULES:
        assert said.row(rule.code)[1:3] == [rule.name, rule.severity.value]
        assert page_from_rule(rule).fault in said.out


def test_the_list_as_json(call: Call) -> None:
    assert {item["code"]: item["name"] for item in call("rules", "--json").json} == {
        rule.code: rule.name for rule in RULES
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_page_is_shown_whole(call: Call, rule: Any) -> None:
    said = call("rules", "explain", rule.code)

    assert said.lines[0].split() == [rule.code, rule.name, rule.severity.value]
    for title, text in page_from_rule(rule).sections.items():
        assert title in said.lines
        assert " ".join(text.split()) in said.out
    for name, value in rule().parameters.items():
        if isinstance(value, bool):
            assert said.row(name)[1] == {True: "true", False: "false"}[value]
        elif isinstance(value, int | float):
            assert said.row(name)[1] == f"{value:g}"


def test_a_page_as_json_has_the_parameters_with_their_defaults(call: Call) -> None:
    page = call("rules", "explain", "vanishing-gradient", "--json").json

    assert (page["code"], page["severity"]) == ("G101", "costly")
    assert {item["name"]: item["default"] for item in page["parameters"]} == VanishingGradient().parameters
    assert next(item for item in page["parameters"] if item["name"] == "ratio")["must_be"] == "above 0 and below 1"
    assert page["needs"] == ["gradient, every 10 steps of train"]


def test_a_wrong_name_is_answered_with_the_nearest(call: Call) -> None:
    said = call("rules", "explain", "dead-rleu")

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith('barograph: "dead-rleu" is no rule. Did you mean "dead-relu"?')


def test_a_wrong_subcommand_is_answered_with_the_nearest(call: Call) -> None:
    said = call("rules", "expalin", "A101")

    assert said.code == 2
    assert "Did you mean 'explain'?" in said.err


def test_a_rule_of_ones_own_without_a_page_is_told_what_is_missing(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_rules_of_the_cli.py").write_text(MY_RULE)
    monkeypatch.chdir(tmp_path)

    said = call("rules", "explain", "my_rules_of_the_cli:Mine")

    assert said.code == 2
    assert 'the docstring has no section "What it sees:"' in said.err
