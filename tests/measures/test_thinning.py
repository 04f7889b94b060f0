"""A long series reduced: what a person would look for is still there."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.measures.thinning import COLUMNS, kept_points


def kept(values: np.ndarray, columns: int = COLUMNS) -> np.ndarray:
    return kept_points(np.arange(len(values), dtype=float), values, low=0, high=len(values) - 1, columns=columns)


def test_one_spike_among_a_million_stays() -> None:
    values = np.ones(1_000_000)
    values[617_283], values[617_290] = 50.0, -3.0

    assert {617_283, 617_290} <= set(kept(values).tolist())


def test_the_number_of_points_is_bounded() -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    values[::3] = np.nan

    assert len(kept(values)) <= 3 * COLUMNS + 2


def test_one_that_is_no_number_stays_beside_the_extremes_of_its_column() -> None:
    values = np.array([1.0, 2.0, np.nan, 3.0, 0.5, 1.0])

    assert kept(values, columns=1).tolist() == [0, 2, 3, 4, 5]


def test_the_first_point_and_the_last_stay() -> None:
    values = np.concatenate([[1.0], np.tile([0.0, 2.0], 500), [1.0]])

    assert {0, len(values) - 1} <= set(kept(values, columns=3).tolist())


def test_a_short_series_stays_whole() -> None:
    assert kept(np.arange(50.0)).tolist() == list(range(50))


@pytest.mark.parametrize("values", [[], [np.nan], [np.inf, -np.inf], [4.0]])
def test_very_short_ones_are_all_kept(values: list[float]) -> None:
    assert len(kept(np.array(values))) == len(values)
