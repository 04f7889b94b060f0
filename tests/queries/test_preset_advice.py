"""A rule without data is never advised to set what is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from barograph.judging.feeding import PRESET
from barograph.model.finding import NotEvaluated, Unmet
from barograph.queries.preset_advice import FEW_STEPS, RECORD_WITH_THE_RULE, advised

LACKING = NotEvaluated("W101", "update-ratio", "Needs data that was not recorded: update.", PRESET,
                       Unmet.NEEDS_SETTING)


@pytest.mark.parametrize(("settings", "tensors", "status", "feed"), [
    ({"preset": "free", "rules": ["all"]}, False, Unmet.NEEDS_SETTING, PRESET),
    ({"preset": "moments", "rules": ["all"]}, True, Unmet.NEEDS_SETTING, PRESET),
    ({}, True, Unmet.NEEDS_SETTING, PRESET),
    ({"preset": "standard", "rules": ["all"]}, True, Unmet.NOT_APPLICABLE, ""),
    ({"preset": "standard", "rules": ["update-ratio"]}, True, Unmet.NOT_APPLICABLE, ""),
    ({"preset": "everything", "rules": ["W101"]}, False, Unmet.NOT_ENOUGH_DATA, FEW_STEPS),
    ({"preset": "standard", "rules": ["G101"]}, True, Unmet.NEEDS_SETTING, RECORD_WITH_THE_RULE),
])
def test_advice_names_what_would_change_something(
    settings: Mapping[str, Any], tensors: bool, status: Unmet, feed: str
) -> None:
    (item,) = advised([LACKING], settings, tensors=tensors)

    assert (item.status, item.feed) == (status, feed)


def test_other_advice_stays() -> None:
    other = NotEvaluated("L102", "overfit", "No evaluation.", "Evaluate.", Unmet.NEEDS_SETTING)

    assert advised([other], {"preset": "standard", "rules": ["all"]}, tensors=True) == (other,)
