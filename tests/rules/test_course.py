"""The course of a noisy series."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from barograph.rules.course import Point, course_of, deepest_fall, extend, fall_of, noise_of, point_of, scatter


def points(*values: float, noise: float = 0.0) -> list[Point]:
    return [Point(10 * index, 10 * index + 9, value, noise) for index, value in enumerate(values)]


def test_a_point_is_the_median_of_its_values_and_knows_how_they_scatter() -> None:
    draw = random.Random(0)
    medians = [point_of(0, 9, [draw.gauss(2.0, 0.5) for _ in range(10)]) for _ in range(2000)]

    measured = float(np.std([point.value for point in medians]))
    all_facts = float(np.median([point.noise for point in medians]))
    assert all_facts == pytest.approx(measured, rel=0.15)


def test_a_single_value_has_no_noise() -> None:
    assert point_of(3, 3, [5.0]) == Point(3, 3, 5.0, 0.0)


def test_a_long_course_is_kept_whole_in_coarser_points_of_one_weight() -> None:
    memory: dict[str, object] = {}
    for index in range(1000):
        extend(memory, Point(10 * index, 10 * index + 9, float(index), 1.0))
        memory = json.loads(json.dumps(memory))

    course = course_of(memory)

    assert len(course) < 120
    assert {point.last - point.first for point in course} == {159}
    assert course[0].value == 7.5
    assert course[0].noise == pytest.approx(0.25)
    assert course_of(memory, start=9000)[0].first == 9120


def test_the_fall_is_from_the_first_third_to_the_last() -> None:
    fall = fall_of(points(9.0, 1.0, 5.0, 5.0, 2.0, 4.0), noise=0.0)

    assert fall is not None
    assert (fall.since, fall.before, fall.now, fall.steps) == (0, 5.0, 3.0, 40.0)


def test_of_two_points_no_fall_can_be_told() -> None:
    assert fall_of(points(2.0, 1.0), noise=0.0) is None


@pytest.mark.parametrize("count", [6, 30, 100])
def test_the_noise_of_a_fall_is_what_falls_of_pure_noise_scatter_by(count: int) -> None:
    draw = random.Random(count)
    falls = [fall_of(points(*(draw.gauss(0.0, 1.0) for _ in range(count))), noise=1.0) for _ in range(1000)]

    scattered = float(np.std([fall.before - fall.now for fall in falls if fall]))
    assert falls[0] is not None
    assert falls[0].noise == pytest.approx(scattered, rel=0.15)


def test_scatter_leaves_the_trend_out_and_needs_six_values() -> None:
    assert scatter([1.0, 3.0, 1.0, 3.0, 1.0]) == 0.0
    assert scatter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == 0.0
    draw = random.Random(0)
    assert scatter([step + draw.gauss(0.0, 3.0) for step in range(1000)]) == pytest.approx(3.0, rel=0.1)


def test_where_points_scatter_more_than_their_own_values_tell_that_is_the_noise() -> None:
    draw = random.Random(0)
    assert noise_of(points(*(draw.gauss(0.0, 3.0) for _ in range(100)), noise=0.1)) > 2.0
    assert noise_of(points(*[1.0] * 20, noise=0.1)) == 0.1


def test_the_deepest_fall_is_below_where_it_began_even_if_it_came_back() -> None:
    assert deepest_fall(points(2.0, 1.0, 1.5, 1.9), noise=0.0, unit=0.1) == 1.0
    assert deepest_fall(points(2.0, 3.0, 4.0), noise=0.0, unit=0.1) == 0.0
    assert deepest_fall([], noise=0.0, unit=0.1) == 0.0


def test_noise_out_of_all_proportion_to_what_matters_is_borne() -> None:
    assert deepest_fall(points(1.0, 2.0, 1.0, 0.0), noise=1.0, unit=1e-300) == 1.0
    assert deepest_fall(points(1.0, 2.0, 1.0, 0.5), noise=1.0, unit=0.0) == 0.5


def test_the_least_of_many_noisy_points_is_no_fall() -> None:
    draw = random.Random(0)
    noisy = points(*(2.0 + draw.gauss(0.0, 0.08) for _ in range(100)))

    assert deepest_fall(noisy, noise=0.0, unit=0.1) > 0.15
    assert deepest_fall(noisy, noise=0.08, unit=0.1) < 0.1
