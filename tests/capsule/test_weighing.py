"""How much each sample of a batch weighs, and when one stands out."""

from __future__ import annotations

import random

import pytest

from barograph.capsule.weighing import MOST_ALONE, Figures, Weighed, most_tries, weighed


def mean_of(losses: list[float]):
    """Return what makes a step whose loss is the mean of those of its samples, and whose norm is twice that."""
    def make(rows: tuple[int, ...]) -> Figures:
        loss = sum(losses[row] for row in rows) / len(rows)
        return Figures(loss, 2 * loss)

    return make


def of(losses: list[float]) -> Weighed:
    make = mean_of(losses)
    return weighed(len(losses), make, make(tuple(range(len(losses)))))


def usual(count: int, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [draw.uniform(1.0, 3.0) for _ in range(count)]


def test_a_sample_far_beyond_the_others_is_named_with_the_numbers() -> None:
    losses = usual(12)
    losses[7] = 60.0
    found = of(losses)
    assert found.outliers == (7,)
    assert (found.alone[0].row, found.alone[0].loss, found.alone[0].norm) == (7, 60.0, 120.0)
    assert (found.by.of, found.whole.loss > 3, found.without.loss < 3) == ("norm", True, True)
    assert 2.0 < found.by.median < 6.0
    assert found.tries == 13 <= most_tries(12)


def test_two_that_stand_out_are_both_named() -> None:
    losses = usual(16)
    losses[3] = losses[11] = 80.0
    assert of(losses).outliers == (3, 11)


def test_where_many_stand_out_none_is_an_exception() -> None:
    assert of([100.0] * 5 + usual(11)).outliers == ()


@pytest.mark.parametrize("draw", [
    lambda at: at.uniform(1.0, 3.0), lambda at: abs(at.gauss(0.0, 1.0)), lambda at: at.expovariate(1.0),
    lambda at: at.lognormvariate(0.0, 1.0),
], ids=["uniform", "normal", "exponential", "log-normal"])
def test_of_usual_batches_hardly_any_sample_is_named(draw) -> None:
    at = random.Random(1)
    named = sum(bool(of([draw(at) for _ in range(16)]).outliers) for _ in range(1000))
    assert named <= 5


def test_fewer_than_eight_samples_name_none() -> None:
    found = of([1.0] * 6 + [1000.0])
    assert (found.outliers, found.by, found.alone[0].row) == ((), None, 6)


def test_a_hair_above_equal_others_is_no_outlier() -> None:
    assert of([1.0] * 15 + [1.5]).outliers == ()


def test_the_largest_of_a_wide_spread_is_no_outlier_below_five_times_the_next() -> None:
    losses = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.1, 6.0]
    assert of([*losses, 40.0]).outliers == (7, 8)
    assert of([*losses[:-1], 4.5, 40.0]).outliers == ()


def test_one_that_takes_nothing_of_the_step_with_it_is_not_named() -> None:
    """As with batch norm, where a sample alone is another thing than in its batch."""
    alone = [2.0, 2.1, 1.9, 2.2, 1.8, 2.0, 2.3, 90.0]

    def make(rows: tuple[int, ...]) -> Figures:
        return Figures(alone[rows[0]] if len(set(rows)) == 1 else 2.0, None)

    found = weighed(8, make, Figures(2.0, None))
    assert (found.outliers, found.alone[0].row) == ((), 7)


def test_losses_below_zero_are_not_compared() -> None:
    found = weighed(8, lambda rows: Figures(50.0 if rows[0] == 2 else -1.0, None), Figures(5.4, None))
    assert (found.outliers, found.by) == ((), None)


def test_gradients_that_are_all_zero_but_one_say_nothing() -> None:
    assert weighed(8, lambda rows: Figures(None, float(3 in rows)), Figures(None, 1.0)).outliers == ()


def test_of_a_large_batch_the_heaviest_part_is_made_alone_and_some_of_the_rest() -> None:
    losses = usual(1000)
    losses[637] = 3000.0
    found = of(losses)
    assert found.outliers == (637,)
    assert len(found.alone) == MOST_ALONE
    assert found.tries <= most_tries(1000) == 32
    assert max(item.row for item in found.alone) - min(item.row for item in found.alone) > 900


@pytest.mark.parametrize("samples", [1, 2, 7, 8, 9, 16, 17, 18, 31, 33, 100])
def test_every_size_of_batch_is_weighed_within_the_tries_that_were_told(samples: int) -> None:
    found = of(usual(samples))
    assert (found.outliers, len(found.alone)) == ((), min(samples, MOST_ALONE))
    assert len({item.row for item in found.alone}) == len(found.alone)
    assert found.tries <= most_tries(samples)


def test_samples_that_cannot_be_made_are_left_out() -> None:
    make = mean_of(usual(10))
    found = weighed(10, lambda rows: None if rows == (4, 4) else make(rows), make(tuple(range(10))))
    assert len(found.alone) == 9
    assert weighed(10, lambda rows: None, Figures(1.0, 1.0)).alone == ()


def test_a_sample_that_is_not_finite_alone_names_nobody() -> None:
    found = weighed(9, lambda rows: Figures(None, float("nan") if rows[0] == 1 else 1.0), Figures(None, 1.0))
    assert found.outliers == ()
