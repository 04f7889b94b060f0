import math
import random
from itertools import combinations
from statistics import median

import pytest

from benchmarks.interleave import interval_of, paired_ratios, round_order


def test_a_figure_is_divided_by_the_mean_of_the_base_just_before_and_just_after():
    measured = [("bare", 10.0), ("a", 33.0), ("bare", 20.0), ("b", 30.0), ("bare", 40.0)]

    assert paired_ratios(measured, "bare")["a"] == [33.0 / 15.0]
    assert paired_ratios(measured, "bare")["b"] == [1.0]


def test_of_several_figures_between_two_bases_each_takes_the_same_two():
    measured = [("bare", 10.0), ("a", 15.0), ("b", 30.0), ("bare", 20.0)]

    assert paired_ratios(measured, "bare") == {"bare": [], "a": [1.0], "b": [2.0]}


def test_a_machine_that_slows_down_steadily_gives_a_control_of_one_and_the_true_ratios():
    speed = [1.0, 1.1, 1.2, 1.3, 1.4]
    names = ["bare", "a", "bare", "a", "bare"]
    measured = [(name, slow * (3.0 if name == "a" else 1.0)) for name, slow in zip(names, speed, strict=True)]

    ratios = paired_ratios(measured, "bare")

    assert ratios["bare"] == pytest.approx([1.0])
    assert ratios["a"] == pytest.approx([3.0, 3.0])


def test_the_first_and_last_base_have_one_side_only_and_are_no_control():
    assert paired_ratios([("bare", 1.0), ("a", 2.0), ("bare", 3.0)], "bare")["bare"] == []


def test_a_base_that_was_not_obtained_is_passed_over_for_the_next():
    measured = [("bare", 10.0), ("a", 20.0), ("bare", math.nan), ("b", 20.0), ("bare", 30.0)]

    assert paired_ratios(measured, "bare") == {"bare": [], "a": [1.0], "b": [1.0]}


def test_a_figure_that_was_not_obtained_gives_no_ratio():
    assert paired_ratios([("bare", 1.0), ("a", math.nan), ("bare", 1.0)], "bare") == {"bare": []}


def test_with_a_base_on_one_side_only_that_one_is_taken():
    assert paired_ratios([("bare", 2.0), ("a", 3.0)], "bare")["a"] == [1.5]


def test_without_any_base_there_is_no_ratio():
    assert paired_ratios([("a", 3.0)], "bare") == {"bare": []}


def test_a_round_begins_and_ends_with_the_base_and_has_it_after_every_two():
    order = round_order(["bare", "a", "b", "c", "d", "e"], "bare", between=2, generator=random.Random(0))

    assert [name if name == "bare" else "·" for name in order] == [
        "bare", "·", "·", "bare", "·", "·", "bare", "·", "bare",
    ]  # fmt: skip
    assert sorted(order) == ["a", "b", "bare", "bare", "bare", "bare", "c", "d", "e"]


def test_rounds_differ_in_their_order_and_a_seed_brings_them_back():
    names = list("abcdefgh")
    first, second = random.Random(1), random.Random(1)

    rounds = [round_order(names, "bare", between=3, generator=first) for _ in range(5)]

    assert len({tuple(order) for order in rounds}) > 1
    assert rounds == [round_order(names, "bare", between=3, generator=second) for _ in range(5)]


def test_the_median_and_the_extremes_are_those_of_the_values():
    interval = interval_of([5.0, 1.0, 2.0, 9.0])

    assert (interval.median, interval.least, interval.greatest, interval.count) == (3.5, 1.0, 9.0, 4)


def test_of_few_values_the_interval_is_the_extremes_and_says_how_little_that_covers():
    interval = interval_of([3.0, 1.0, 2.0])

    assert (interval.low, interval.high, interval.coverage) == (1.0, 3.0, 0.75)


def test_one_value_covers_nothing():
    assert interval_of([3.0]).coverage == 0.0


def test_no_values_are_refused():
    with pytest.raises(ValueError, match="no values"):
        interval_of([])


@pytest.mark.parametrize(("count", "rank"), [(6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (25, 8)])
def test_the_ends_are_the_order_statistics_of_the_published_table(count, rank):
    # Ranks for 95 % as in the usual tables of the sign test (for n = 9: the 2nd and the 8th value).
    interval = interval_of([float(value) for value in range(1, count + 1)])

    assert (interval.low, interval.high) == (float(rank), float(count + 1 - rank))
    assert interval.coverage >= 0.95


def test_the_coverage_is_the_share_of_all_equally_likely_samples_that_hold_the_median():
    # Each value falls below or above the true median with probability one half: all 2**7 ways, counted.
    interval = interval_of([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], coverage=0.8)
    rank = int(interval.low)
    held = sum(1 for below in range(8) for _ in combinations(range(7), below) if rank <= below <= 7 - rank)

    assert interval.coverage == pytest.approx(held / 2**7)


def test_the_median_is_the_one_of_the_standard_library():
    values = [random.Random(seed).random() for seed in range(10)]

    assert interval_of(values).median == median(values)
