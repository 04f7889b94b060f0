"""Every rule can be found by a symptom, and the index names no rule that is gone."""

from __future__ import annotations

import pytest

from barograph.rules.builtin import RULES
from barograph.rules.page import FAMILIES, page_from_rule
from barograph.rules.symptoms import COMPLAINTS, index_by_symptom


def test_every_rule_is_listed_under_a_symptom() -> None:
    listed = {code for complaint in COMPLAINTS for code in complaint.codes}

    assert listed == {rule_class.code for rule_class in RULES}


def test_no_symptom_lists_a_rule_twice() -> None:
    assert [complaint.heading for complaint in COMPLAINTS if len(set(complaint.codes)) != len(complaint.codes)] == []


def test_a_symptom_with_a_rule_that_is_gone_is_an_error() -> None:
    with pytest.raises(KeyError, match="N101"):
        index_by_symptom(rule_class for rule_class in RULES if rule_class.code != "N101")


def test_the_index_takes_name_and_sentence_from_the_rule() -> None:
    rule_class = RULES[0]

    row = f"| [{rule_class.code} {rule_class.name}]({rule_class.code}-{rule_class.name}.md) | "
    assert row + page_from_rule(rule_class).fault in index_by_symptom(RULES)


def test_every_family_of_rules_has_a_title() -> None:
    assert {rule_class.code[0] for rule_class in RULES} == set(FAMILIES)
