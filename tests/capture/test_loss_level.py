"""A loss that jumps is noticed while its step is under way."""

from __future__ import annotations

import math
import random

from barograph.capture.loss_level import LossLevel


def jumps(losses: list[float]) -> list[int]:
    level = LossLevel()
    return [step for step, loss in enumerate(losses) if level.jumps(loss)]


def test_a_jump_is_noticed_at_its_own_step_alone() -> None:
    assert jumps([0.5] * 40 + [6.0] + [0.5] * 40) == [40]


def test_noise_and_falls_are_no_jumps_what_is_not_finite_is_one() -> None:
    noise = random.Random(0)
    assert jumps([2.3 * math.exp(-step / 50) * noise.uniform(0.3, 1.7) for step in range(400)]) == []
    assert jumps([1.0] * 30 + [math.nan, math.inf, 1.0]) == [30, 31]
    assert jumps([-3.0] * 30 + [-2.0, -4.0]) == []


def test_nothing_is_known_of_the_first_losses() -> None:
    assert jumps([1.0] * 10 + [100.0]) == []


def test_a_loss_near_zero_that_rises_to_a_new_height_jumps() -> None:
    assert jumps([1e-3] * 100 + [2.2] * 5)[:1] == [100]
