"""Every rule that comes with Barograph keeps what is asked of anybody's: the published suite, rule by rule."""

from __future__ import annotations

from functools import cache

import pytest

from barograph.judging.judge import Judge
from barograph.model.clock import ManualClock
from barograph.rules.base import Rule
from barograph.rules.builtin import RULES
from barograph.runs.reading.view import StepView
from barograph.testing.rules import RuleConformance
from rules.cases import CASES

CASE_OF = {case.rule.code: case for case in CASES}
CHECKS = [name for name in vars(RuleConformance) if name.startswith("test_")]


def test_every_rule_has_its_case() -> None:
    assert sorted(case.rule.code for case in CASES) == sorted(rule.code for rule in RULES)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("code", CASE_OF)
def test_it_keeps_the_contract(code: str, check: str) -> None:
    getattr(suite_of(code), check)()


def up_to_the_finding(rule: Rule, views: list[StepView]) -> list[StepView]:
    """Return the run until a little after a finding opens: the suite restarts it before each of its steps."""
    judge = Judge(rule, ManualClock())
    for number, view in enumerate(views):
        if judge.take(view)[0]:
            return views[: number + 4]
    return views


@cache
def suite_of(code: str) -> RuleConformance:
    case = CASE_OF[code]
    runs = {"rule": case.rule, "sick": up_to_the_finding(case.rule, list(case.sick())), "well": list(case.well())}
    made: RuleConformance = type(f"Test{code}", (RuleConformance,), runs)()
    return made
