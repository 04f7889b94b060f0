"""Points in buckets, and buckets in larger ones, say of a series what its points say."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.measures.buckets import BUCKET, Buckets, buckets_of_points, even_starts, merged_buckets

STEPS = np.array([0, 1, 2, 3, 4, 4, 6, 2])
VALUES = np.array([3.0, np.nan, -1.0, np.inf, 8.0, 2.0, -np.inf, 2.0])
TIMES = np.arange(8) / 2


def plainly(steps: list[int], values: list[float], times: list[float]) -> dict[str, float]:
    """A bucket, written the obvious way."""
    finite = [value for value in values if np.isfinite(value)]
    least, greatest = min(finite, default=np.inf), max(finite, default=-np.inf)
    low, high = (values.index(least), values.index(greatest)) if finite else (0, 0)
    mean = sum(finite) / len(finite) if finite else 0.0
    newest = max(at for at, step in enumerate(steps) if step == max(steps))
    return {
        "count": len(values), "nan": sum(np.isnan(values)), "posinf": values.count(np.inf),
        "neginf": values.count(-np.inf), "first_step": min(steps), "last_step": max(steps), "first_time": times[0],
        "last_time": times[-1], "min": least, "min_step": steps[low], "min_time": times[low], "max": greatest,
        "max_step": steps[high], "max_time": times[high], "mean": mean,
        "squares": sum((value - mean) ** 2 for value in finite), "last": values[newest],
    }


def check(found: Buckets, starts: list[int]) -> None:
    stops = [*starts[1:], len(VALUES)]
    for bucket, start, stop in zip(found, starts, stops, strict=True):
        parts = [column[start:stop].tolist() for column in (STEPS, VALUES, TIMES)]
        expected = plainly(*parts)
        for name in BUCKET.names or ():
            assert bucket[name] == pytest.approx(expected[name], nan_ok=True), (name, start)


@pytest.mark.parametrize("starts", [[0], [0, 1, 2, 3, 4, 5, 6, 7], [0, 3, 4], [0, 1, 3, 6]])
def test_buckets_agree_with_the_points_looked_at_plainly(starts: list[int]) -> None:
    check(buckets_of_points(STEPS, VALUES, TIMES, np.array(starts)), starts)


@pytest.mark.parametrize("starts", [[0], [0, 2], [0, 1, 2, 3]])
def test_merged_buckets_are_those_of_the_points(starts: list[int]) -> None:
    small = [0, 1, 3, 6]
    merged = merged_buckets(buckets_of_points(STEPS, VALUES, TIMES, np.array(small)), np.array(starts))
    check(merged, [small[start] for start in starts])


def test_numbers_whose_sum_no_double_holds_have_a_mean() -> None:
    huge = np.array([1.5e308, 1.5e308, 1.5e308, 1.5e308])
    found = buckets_of_points(np.arange(4), huge, np.zeros(4), np.array([0, 2]))
    assert found["mean"].tolist() == [1.5e308, 1.5e308]
    assert merged_buckets(found, np.array([0]))["mean"].tolist() == [1.5e308]


def test_nothing_has_no_buckets() -> None:
    nothing = np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.intp)
    assert len(buckets_of_points(*nothing)) == 0
    assert len(merged_buckets(np.empty(0, BUCKET), np.empty(0, np.intp))) == 0


def test_buckets_are_merged_into_as_many_as_are_asked_for_and_no_more() -> None:
    assert len(even_starts(np.full(1000, 64), 100)) == 100
    assert len(even_starts(np.array([1_000_000, 1, 1, 1]), 3)) <= 3
    assert even_starts(np.array([5]), 9).tolist() == [0]
