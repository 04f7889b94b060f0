"""Titles of problems."""

from __future__ import annotations

import pytest

from barograph.queries.titles import first_clause


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
