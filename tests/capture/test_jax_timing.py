"""What steps with statistics cost more than those without, from few that were timed."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.capture.jax.timing import FEW, MOST, Surplus


def surplus(recorded: list[float], plain: list[float]) -> Surplus:
    made = Surplus()
    for secs in recorded:
        made.add(secs, recorded=True)
    for secs in plain:
        made.add(secs, recorded=False)
    return made


def test_of_steps_that_all_take_the_same_it_is_the_difference() -> None:
    for recorded, plain, more in ((1.5, 1.0, 0.5), (1.0, 1.5, 0.0)):
        made = surplus([recorded] * 3, [plain] * 3)
        assert (made.secs, made.likely_secs) == (pytest.approx(more), pytest.approx(more))


@pytest.mark.parametrize(("recorded", "plain"), [([1.0, 1.2], []), ([], [1.0]), ([], [])])
def test_it_is_nothing_as_long_as_there_is_nothing_to_compare(recorded: list[float], plain: list[float]) -> None:
    assert surplus(recorded, plain).secs == surplus(recorded, plain).likely_secs == 0.0


@pytest.mark.parametrize("steps", [FEW, MOST])
def test_of_steps_on_a_busy_machine_it_is_seldom_too_small(steps: int) -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.05, (1000, 2, steps))
    found = np.array([surplus(list(1.05 + recorded), list(1.0 + plain)).likely_secs for recorded, plain in noise])
    without_doubt = np.array([surplus(list(1.05 + recorded), list(1.0 + plain)).secs for recorded, plain in noise])
    assert (found < 0.05).mean() < 0.3 < (without_doubt < 0.05).mean()
    assert (found < 0.01).mean() < 0.13
    assert np.median(found) < (0.12 if steps == FEW else 0.08)


def test_one_step_that_was_held_up_changes_little() -> None:
    usual = [1.0, 1.01, 1.02, 1.01, 1.0]
    assert surplus([*usual, 9.0], usual).likely_secs < 0.05


def test_both_kinds_keep_pace_up_to_so_many() -> None:
    made = Surplus()
    kinds = []
    for _ in range(200):
        for recorded in (True, True, False):
            if made.wants(recorded=recorded):
                kinds.append(recorded)
                made.add(1.0, recorded=recorded)
    assert kinds[:5] == [True, True, False, True, False]
    assert kinds.count(True) == kinds.count(False) == MOST


def test_of_a_training_whose_every_step_is_told_few_are_timed() -> None:
    made = Surplus()
    assert not made.lacks_plain
    for _ in range(FEW):
        assert made.wants(recorded=True)
        made.add(1.0, recorded=True)
    assert not made.wants(recorded=True)
    assert made.lacks_plain


def test_what_was_known_is_forgotten() -> None:
    made = surplus([1.5] * 3, [1.0] * 3)
    made.forget()
    assert made.likely_secs == 0.0
    assert made.wants(recorded=True)
