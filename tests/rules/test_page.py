"""Every rule is its own page, and the committed pages are those made from the rules."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from barograph.errors import BadRule
from barograph.rules.base import Rule
from barograph.rules.builtin import RULES
from barograph.rules.page import SECTIONS, index_from_rules, markdown_from_rule, page_from_rule
from barograph.rules.pages import pages, write_pages

COMMITTED = Path(__file__).parents[2] / "docs" / "rules"

PAGE = """X901: A weight is too large.

    What it sees: the weights,
      all of them.
    Why it matters: it does.
    What to do: less: much less.
    When it is wrong: never.
    Source: none.
    """


def rule_class_with_page(text: str | None) -> type[Rule]:
    return type("TooLoud", (Rule,), {"code": "X901", "name": "too-loud", "__doc__": text, "__module__": "mine"})


def test_a_docstring_gives_the_fault_and_the_sections() -> None:
    page = page_from_rule(rule_class_with_page(PAGE))

    assert page.fault == "A weight is too large."
    assert page.sections["What it sees"] == "The weights,\nall of them."
    assert page.sections["What to do"] == "Less: much less."
    assert list(page.sections) == list(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_page_without_one_of_its_sections_is_refused(section: str) -> None:
    text = "\n".join(line for line in PAGE.splitlines() if not line.strip().startswith(section))

    with pytest.raises(BadRule, match=f'mine.TooLoud: the docstring has no section "{section}:"'):
        page_from_rule(rule_class_with_page(text))


@pytest.mark.parametrize("text", [None, "A weight is too large.", PAGE.replace("X901", "X902")])
def test_a_page_begins_with_the_code(text: str | None) -> None:
    with pytest.raises(BadRule, match='it must start with "X901: "'):
        page_from_rule(rule_class_with_page(text))


@pytest.mark.parametrize("rule_class", RULES, ids=lambda item: item.name)
def test_every_built_in_rule_is_a_whole_page_with_every_parameter_explained(rule_class: type[Rule]) -> None:
    page = page_from_rule(rule_class)
    explained = {item.name for item in fields(rule_class) if item.metadata["parameter"].doc.endswith(".")}

    assert page.fault.endswith(".")
    assert explained == {item.name for item in fields(rule_class)}


def test_the_page_of_a_rule_shows_its_parameters_and_needs() -> None:
    text = markdown_from_rule(RULES[-1])

    assert "| `patience` | `" in text
    assert "## Needs" in text


def test_the_index_lists_every_rule() -> None:
    text = index_from_rules(RULES)

    assert [rule_class.code for rule_class in RULES if f"[{rule_class.code}](" not in text] == []


def test_the_committed_pages_are_those_made_from_the_rules() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in COMMITTED.glob("*.md")}

    assert committed == pages(), "run `make docs` and commit docs/rules"


def test_writing_pages_takes_away_those_of_rules_that_are_no_more_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "X901-too-loud.md").write_text("old")
    (tmp_path / "notes.md").write_text("mine")

    changed = write_pages(tmp_path)

    assert "X901-too-loud.md" in changed
    assert not (tmp_path / "X901-too-loud.md").exists()
    assert (tmp_path / "notes.md").read_text() == "mine"
    assert write_pages(tmp_path) == []
