"""Models of trees."""

from __future__ import annotations

from typing import Any

from barograph.queries.trees import MOST_FEATURES, importance_in, trees_in


def test_features_are_told_by_their_share_at_last_the_heaviest_first(diary: Any) -> None:
    diary.step(0, {"importance:age": 8.0, "importance:zip": 2.0})
    diary.step(1, {"importance:age": 1.0, "importance:zip": 3.0})

    (first, second), left_out = importance_in(diary.ended())

    assert (first.feature, first.share, first.over_time.values) == ("zip", 0.75, (2.0, 3.0))
    assert (second.feature, second.share, left_out) == ("age", 0.25, 0)


def test_a_feature_that_no_tree_uses_any_more_counts_for_nothing(diary: Any) -> None:
    diary.step(0, {"importance:age": 8.0, "importance:zip": 2.0})
    diary.step(1, {"importance:zip": 3.0})

    features, _ = importance_in(diary.ended())

    assert {item.feature: item.share for item in features} == {"zip": 1.0, "age": 0.0}


def test_of_many_features_the_heaviest_are_told(diary: Any) -> None:
    diary.step(0, {f"importance:f{number}": float(number) for number in range(MOST_FEATURES + 5)})

    features, left_out = importance_in(diary.ended())

    assert (len(features), left_out) == (MOST_FEATURES, 5)
    assert features[0].feature == f"f{MOST_FEATURES + 4}"


def test_depth_and_leaves_are_told_over_the_rounds(diary: Any) -> None:
    diary.step(0, {"tree:depth": 3.0, "tree:leaves": 8.0})
    diary.step(1, {"tree:depth": 6.0, "tree:leaves": 40.0})

    depth, leaves = trees_in(diary.ended())

    assert (depth.key, depth.values) == ("tree:depth", (3.0, 6.0))
    assert (leaves.key, leaves.greatest) == ("tree:leaves", 40.0)
