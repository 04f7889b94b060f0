"""The first trials of a study fill its space evenly, also the first few, and also in many dimensions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from barograph.tune.autotune import space_of_algorithm
from barograph.tune.space import Space
from barograph.tune.strategies.start import Start, start_count
from barograph.tune.study import Study

SEEDS = range(20)


def cube(size: int) -> Space:
    return Space.from_texts(f"x{number}=0..1" for number in range(size))


def test_the_middle_of_the_space_is_first() -> None:
    space = Space.from_texts(["x=0..1", "choice=a,b,c", "width=1..9:int"])
    for seed in SEEDS:
        assert list(Start(space, seed).position(0)) == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(("size", "parts"), [(1, 4), (2, 4), (3, 4), (5, 6), (9, 10), (20, 10)])
def test_no_part_of_a_range_is_tried_twice(size: int, parts: int) -> None:
    count = start_count(size) - 1
    for seed in SEEDS:
        start = Start(cube(size), seed)
        tried = np.array([start.position(number) for number in range(1, count + 1)])
        assert [len(set(column)) for column in (tried * parts).astype(int).T] == [count] * size


@pytest.mark.parametrize(("size", "least"), [(1, 0.06), (9, 0.025)])
def test_no_two_values_of_a_range_are_almost_equal(size: int, least: float) -> None:
    for seed in SEEDS:
        start = Start(cube(size), seed)
        tried = np.sort([start.position(number) for number in range(start_count(size))], axis=0)
        assert np.diff(tried, axis=0).min() >= least


@pytest.mark.parametrize("size", [8, 9, 20])
def test_four_positions_after_the_middle_leave_no_gap_of_half_a_range(size: int) -> None:
    for seed in SEEDS:
        start = Start(cube(size), seed)
        tried = np.sort([start.position(number) for number in range(1, 5)], axis=0)
        gaps = np.diff(np.vstack([tried, tried[:1] + 1]), axis=0)  # the last one goes on at the other end
        assert gaps.max() < 4 / 9


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_each_value_of_a_choice_is_tried_before_any_is_tried_again(count: int) -> None:
    choice = f"choice={','.join(f'v{number}' for number in range(count))}"
    for seed in SEEDS:
        study = Study.create(None, [choice, *(f"x{number}=0..1" for number in range(19))], seed=seed, minimize="loss")
        tried = [study.ask() for _ in range(count)]
        assert len({trial.parameters["choice"] for trial in tried if trial}) == count


def test_each_booster_is_tuned_from_the_start() -> None:
    space = space_of_algorithm("xgboost", {})
    for seed in SEEDS:
        study = Study.create(None, space, seed=seed, minimize="loss", trials=10)
        tried = [study.ask() for _ in range(10)]
        boosters = [trial.parameters["booster"] for trial in tried if trial]
        assert set(boosters[:2]) == {"gbtree", "gblinear"}
        assert Counter(boosters) == {"gbtree": 5, "gblinear": 5}
        # A parameter of one booster is spread over the trials of that booster.
        depths = sorted(float(trial.parameters["max_depth"]) for trial in tried
                        if trial and "max_depth" in trial.parameters)
        assert depths[0] <= 5
        assert depths[-1] >= 10


def test_a_choice_whose_values_are_all_tried_begins_again() -> None:
    start = Start(Space.from_texts(["choice=a,b,c", "x=0..1"]), 1)
    levels = [int(start.position(number)[0] * 3) for number in range(9)]
    assert [sorted(levels[first:first + 3]) for first in (0, 3, 6)] == [[0, 1, 2]] * 3


def test_two_choices_of_two_values_are_not_always_tried_together() -> None:
    for seed in SEEDS:
        start = Start(Space.from_texts(["one=a,b", "other=c,d", "x=0..1"]), seed)
        tried = np.array([start.position(number) for number in range(start_count(3))])
        assert not np.array_equal(tried[:, 0], tried[:, 1])


def test_a_position_depends_on_seed_and_number_only() -> None:
    first, second, other = Start(cube(4), 1), Start(cube(4), 1), Start(cube(4), 2)
    backwards = [second.position(number) for number in reversed(range(8))][::-1]
    assert np.array_equal([first.position(number) for number in range(8)], backwards)
    assert not np.array_equal(first.position(3), other.position(3))


def discrepancy(rows: np.ndarray) -> float:
    """The square of the centered L2 discrepancy, written as in the paper."""
    count, size = rows.shape
    total = (13 / 12) ** size
    for row in rows:
        total -= 2 / count * np.prod([1 + abs(x - 0.5) / 2 - abs(x - 0.5) ** 2 / 2 for x in row])
        for other in rows:
            total += np.prod([1 + abs(x - 0.5) / 2 + abs(y - 0.5) / 2 - abs(x - y) / 2
                              for x, y in zip(row, other, strict=True)]) / count**2
    return float(total)


def test_the_positions_are_spread_evenly() -> None:
    starts = [Start(cube(5), seed) for seed in SEEDS]
    ours = np.median([discrepancy(np.array([start.position(number) for number in range(7)])) for start in starts])
    assert ours < 0.075  # random positions: 0.22; one hypercube instead of the best of eight: 0.079
