"""`barograph rules`: the list and the pages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.model.significant import significant
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
            assert said.row(name)[1] == significant(value, 6)


def test_a_page_as_json_has_the_parameters_with_their_defaults(call: Call) -> None:
    page = call("rules", "explain", "vanishing-gradient", "--json").json

    assert (page["code"], page["severity"]) == ("G101", "costly")
    assert {item["name"]: item["default"] for item in page["parameters"]} == VanishingGradient().parameters
    assert next(item for item in page["parameters"] if item["name"] == "ratio")["must_be"] == "above 0 and below 1"
    assert page["needs"] == ["gradient, every 10 steps of train"]


def test_a_wrong_name_is_answered_with_the_nearest(call: Call) -> None:
    said = call("rules", "explain", "dead-rleu")

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith('barograph: "dead-rleu" is not a rule. Did you mean "dead-relu"?')


def test_a_wrong_subcommand_is_answered_with_the_nearest(call: Call) -> None:
    said = call("rules", "expalin", "A101")

    assert said.code == 2
    assert "Did you mean 'explain'?" in said.err


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Put a rule of one's own where one stands; the words of its source may be replaced. Returns how it is called."""

    def put(name: str, *replaced: tuple[str, str]) -> str:
        text = MY_RULE
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        return f"{name}:Mine"

    return put


def test_of_a_rule_without_a_page_what_there_is_is_shown(call: Call, mine: Callable[..., str]) -> None:
    said = call("rules", "explain", mine("rules_without_a_page"))

    assert said.code == 0
    assert said.lines[:2] == ["X901 mine  note", "Something of mine is wrong."]
    assert said.row("patience")[1] == "1"
    assert 'the docstring has no section "What it sees:"' in said.out


def test_a_rule_without_a_docstring_is_not_described_by_its_signature(call: Call, mine: Callable[..., str]) -> None:
    rule = mine("rules_without_a_docstring", ('    """X901: Something of mine is wrong."""\n', ""))

    said = call("rules", "explain", rule)

    assert said.code == 0
    assert "Mine(" not in said.out
    assert "Page  it has none: a page is made from a docstring." in said.lines
    assert call("rules", "explain", rule, "--json").json["fault"] == ""


@pytest.mark.parametrize("command", ["rules explain", "run --to run --rules"])
def test_a_parameter_without_a_default_is_named(
    call: Call, mine: Callable[..., str], command: str, tmp_path: Path
) -> None:
    rule = mine(f"rules_that_ask_{command[:3]}", ("    def judge", "    limit: float\n\n    def judge"))
    script = [] if command.startswith("rules") else [sys.executable]

    said = call(*command.split(), rule, *script)

    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "barograph: mine.limit has no default; set limit in [rule_settings.X901] in barograph.toml.\n"
    )


def test_the_name_of_another_rule_is_taken(call: Call, mine: Callable[..., str]) -> None:
    rule = mine("rules_of_a_taken_name", ('"mine"', '"dead-relu"'))

    said = call("rules", "explain", rule)

    assert said.code == 2
    assert said.err.startswith(f'barograph: {rule} (X901) uses the name "dead-relu" of barograph.')
    assert "(A101)" in said.err


def test_what_lies_where_one_stands_is_found_last(call: Call, mine: Callable[..., str]) -> None:
    call("rules", "explain", mine("rules_that_are_found"))

    assert sys.path[-1] == str(Path.cwd())


def test_json_may_stand_before_the_subcommand(call: Call) -> None:
    assert call("rules", "--json", "explain", "A101").json == call("rules", "explain", "A101", "--json").json


def test_a_new_rule_is_written_and_never_over_another(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("rules", "new", "loud-weights")
    assert "barograph run --rules all,loud_weights:LoudWeights train.py" in said.out
    written = (tmp_path / "loud_weights.py").read_text(encoding="utf-8")
    assert "class LoudWeights(Rule):" in written

    again = call("rules", "new", "loud-weights")
    assert again.code == 2
    assert "A file with that name exists" in again.err
    assert (tmp_path / "loud_weights.py").read_text(encoding="utf-8") == written


@pytest.mark.parametrize(("arguments", "says"), [
    (("loud", "--kind", "wait"), 'Did you mean "weight"?'),
    (("loud", "--code", "G101"), "G101 vanishing-gradient is there already"),
    (("overfit",), "L102 overfit is there already"),
    (("Loud!",), "not a valid rule name"),
    (("loud", "--to", "no/such/folder/loud.py"), "No such file or directory"),
])
def test_what_cannot_be_a_new_rule_is_refused(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("rules", "new", *arguments)
    assert said.code == 2
    assert says in said.err
    assert list(tmp_path.iterdir()) == []
