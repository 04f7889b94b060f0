"""Titles of problems."""

from __future__ import annotations

import pytest

from barograph.model.cause import Cause
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.step import Mode
from barograph.queries.titles import first_clause, title_of


@pytest.mark.parametrize(("message", "clause"), [
    ("Memory of the process (p0) keeps growing: 3 MB a step.", "Memory of the process (p0) keeps growing"),
    ("Class 3 (cat) is never predicted", "Class 3 (cat) is never predicted"),
    ("The loss (now: 2.3; before: 2.1) rises. It will not fall.", "The loss (now: 2.3; before: 2.1) rises"),
    ("Units are dead (62.5% of them): they output zero.", "Units are dead"),
    ("Units are dead (62.5% of them)", "Units are dead"),
    ("It changed by 0.9 (normal: up to 0.1), and the loss rose.", "It changed by 0.9"),
    ("Units (of conv2) are dead (all of them).", "Units (of conv2) are dead"),
    ("A parenthesis (that never ends: here", "A parenthesis (that never ends"),
    ("Two\nlines: one clause", "Two\nlines"),
    ("", ""),
])
def test_the_first_clause_ends_at_punctuation_outside_of_parentheses(message: str, clause: str) -> None:
    assert first_clause(message) == clause


@pytest.mark.parametrize(("code", "cause", "remedy", "title"), [
    ("D108", Cause.SOFTMAX_TWICE, "Remove the softmax.", "Softmax is applied twice"),
    ("D108", Cause.SOFTMAX_TWICE, "Remove the sigmoid.", "Sigmoid is applied twice"),
    ("D108", Cause.SOFTMAX_TWICE, "Remove the softmax or sigmoid.", "Softmax is applied twice"),
    ("L102", Cause.LABELS_UNRELATED, "", "On validation data, the model is no better than a constant prediction"),
    ("D102", Cause.LABELS_UNRELATED, "", "Training and validation number the classes differently"),
    ("L108", Cause.LABELS_UNRELATED, "", "The labels do not match the inputs"),
])
def test_a_rule_may_know_a_cause_more_exactly(code: str, cause: Cause, remedy: str, title: str) -> None:
    lead = Finding("id", code, "x", Severity.COSTLY, FindingState.OPEN, "m", remedy, (), "", "p0", "", Mode.TRAIN, 0,
                   0, 0, None, 0.0)

    assert title_of(cause, 0.8, lead) == title
