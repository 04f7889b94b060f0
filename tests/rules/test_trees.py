"""TreeDepth and FeatureImportanceOverweight."""

from __future__ import annotations

from barograph.model.key import Key, Kind
from barograph.rules.base import Unjudged
from barograph.rules.trees import FeatureImportanceOverweight, TreeDepth
from barograph.runs.reading.view import StepView
from judging import causes, said, symptoms


def grown(depth: float) -> StepView:
    return StepView.of(10, {Key(Kind.TREE, "depth"): depth})


def weighed(*importance: float) -> StepView:
    return StepView.of(10, {Key(Kind.IMPORTANCE, f"f{at}"): value for at, value in enumerate(importance)})


def test_amazons_depth_of_four_holds_where_it_is_set() -> None:
    (symptom,) = symptoms(TreeDepth(depth=4), [grown(5.0)])

    assert symptom.message == "A tree of round 10 is 5 levels deep."
    assert causes(symptom) == ["trees-too-deep"]
    assert said(TreeDepth(depth=4), [grown(4.0)]) == [[]]


def test_by_default_usual_depths_are_let_pass() -> None:
    assert said(TreeDepth(), [grown(6.0), grown(30.0)]) == [[], []]
    assert len(symptoms(TreeDepth(), [grown(60.0)])) == 1


def test_one_feature_that_decides_all_is_named() -> None:
    (symptom,) = symptoms(FeatureImportanceOverweight(), [weighed(0.1, 98.0, 0.5, 0.4, 0.6, 0.4)])

    assert symptom.message == 'Of 6 features, "f1" has 98% of the total importance.'
    assert causes(symptom) == ["few-features-dominate", "targets-in-input"]


def test_amazons_three_features_at_four_fifths_hold_where_they_are_set() -> None:
    rule = FeatureImportanceOverweight(nfeatures=3, threshold=0.8)

    assert len(symptoms(rule, [weighed(30.0, 30.0, 25.0, 10.0, 5.0)])) == 1
    assert said(rule, [weighed(20.0, 20.0, 20.0, 20.0, 20.0)]) == [[]]
    assert said(FeatureImportanceOverweight(), [weighed(30.0, 30.0, 25.0, 10.0, 5.0)]) == [[]]


def test_a_table_of_few_features_is_not_judged() -> None:
    assert said(FeatureImportanceOverweight(), [weighed(99.0, 1.0)]) == [
        [Unjudged("needs the importance of 5 features; this run has 2")]
    ]
    assert said(TreeDepth(), [weighed(99.0, 1.0)]) == [[Unjudged("no tree depth was recorded")]]
