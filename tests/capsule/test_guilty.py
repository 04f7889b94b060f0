"""Which samples alone make a step fail."""

from __future__ import annotations

import random

import pytest

from barograph.capsule.guilty import MOST_GUILTY, guilty_among


@pytest.mark.parametrize("guilty", [{0}, {15}, {7}, {3, 4}, {0, 15}, {1, 5, 9}])
def test_every_sample_that_fails_alone_is_found(guilty):
    found = guilty_among(16, lambda rows: bool(guilty & set(rows)))
    assert set(found.rows) == guilty
    assert found.without_them is True
    assert found.tries <= 30


def test_suspects_are_asked_first():
    found = guilty_among(1024, lambda rows: 700 in rows, suspects=[700])
    assert (found.rows, found.without_them, found.tries) == ((700,), True, 2)


def test_a_suspect_that_is_innocent_misleads_nobody():
    assert guilty_among(64, lambda rows: 40 in rows, suspects=[3, 4]).rows == (40,)


def test_a_sample_alone_is_made_two_for_layers_that_need_more_than_one():
    asked = []

    def fails(rows):
        asked.append(rows)
        return 2 in rows

    assert guilty_among(3, fails).rows == (2,)
    assert all(len(rows) > 1 for rows in asked)


def test_where_all_together_fail_and_none_alone_nobody_is_named():
    found = guilty_among(8, lambda rows: len(set(rows)) > 5)
    assert (found.rows, found.without_them) == ((), None)


def test_where_any_sample_fails_it_is_not_the_samples():
    found = guilty_among(100, lambda rows: True)
    assert (found.rows, found.without_them, found.tries) == ((), None, 5)


def test_where_many_are_guilty_so_many_are_named():
    found = guilty_among(100, lambda rows: any(30 < row < 80 for row in rows))
    assert len(found.rows) == MOST_GUILTY
    assert found.without_them is False


def test_a_batch_of_one():
    assert guilty_among(1, lambda rows: True).rows == (0,)


def test_halving_takes_few_tries():
    for seed in range(20):
        row = random.Random(seed).randrange(4096)
        assert guilty_among(4096, lambda rows, row=row: row in rows).tries <= 30


def test_where_any_sample_fails_a_batch_of_hardly_more_than_the_suspects_names_nobody():
    found = guilty_among(10, lambda rows: True, suspects=range(8))

    assert (found.rows, found.without_them) == ((), None)
