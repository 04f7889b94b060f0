"""Importance has one key that rules look at, and others beside it that they pass over."""

from __future__ import annotations

from barograph.model.importance import KINDS, importance_key, is_counted_otherwise
from barograph.model.key import Key, Kind
from barograph.rules.trees import FeatureImportanceOverweight
from barograph.runs.reading.view import StepView
from barograph.testing.rules import judged


def test_only_the_total_gain_stands_under_the_name_alone() -> None:
    assert not is_counted_otherwise(importance_key("age").path)
    assert all(is_counted_otherwise(importance_key("age", kind).path) for kind in KINDS)


def test_a_feature_whose_name_ends_in_brackets_is_a_feature() -> None:
    assert not is_counted_otherwise(importance_key("age[years]").path)


def test_the_rule_counts_each_feature_once() -> None:
    shares = {f"x{number}": 1.0 for number in range(6)} | {"x0": 200.0}
    found = {Key(Kind.IMPORTANCE, name): value for name, value in shares.items()}
    others = {importance_key(name, kind): 1000.0 for name in shares for kind in ("cover", "weight")}
    (finding,) = judged(FeatureImportanceOverweight(), [StepView.of(step, {**found, **others}) for step in range(4)])
    assert finding.message.startswith("Of 6 features")
