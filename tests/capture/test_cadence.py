"""When the next checkpoint is due."""

from __future__ import annotations

import math

import pytest

from barograph.capture.cadence import Cadence, best_interval_secs
from barograph.model.checkpoints import CheckpointSettings


def test_steps_make_one_due_at_their_multiples():
    cadence = Cadence(CheckpointSettings(every_steps=10), now_secs=0.0)
    cadence.begins(4)
    assert [steps for steps in (4, 9, 10, 11) if cadence.due(steps, 1e9)] == [10, 11]
    cadence.took(11, 5.0, cost_secs=1.0)
    assert [steps for steps in (12, 19, 20) if cadence.due(steps, 1e9)] == [20]


def test_minutes_make_one_due():
    cadence = Cadence(CheckpointSettings(every_minutes=2.0), now_secs=100.0)
    assert [secs for secs in (100.0, 219.0, 220.0) if cadence.due(1, secs)] == [220.0]
    cadence.took(1, 230.0, cost_secs=10.0)
    assert not cadence.due(2, 349.0)
    assert cadence.due(2, 350.0)


def test_the_cost_makes_one_due_where_that_is_left_to_barograph():
    cadence = Cadence(CheckpointSettings(auto=True, mtbf_hours=2.0), now_secs=0.0)
    assert cadence.interval_secs == 30.0
    cadence.took(1, 30.0, cost_secs=1.0)
    assert cadence.interval_secs == 120.0
    cadence.took(2, 150.0, cost_secs=7.0)
    assert cadence.interval_secs == math.sqrt(2 * 4.0 * 7200)


def test_nothing_is_due_where_nothing_was_set():
    assert not Cadence(CheckpointSettings(), now_secs=0.0).due(10**6, 1e9)


@pytest.mark.parametrize(("cost", "mtbf", "expected"), [
    (2.0, 3600.0, 120.0), (0.0, 3600.0, 0.0), (5000.0, 3600.0, 3600.0), (1.0, 1.0, 1.0)])
def test_the_edges_are_as_documented(cost, mtbf, expected):
    assert best_interval_secs(cost, mtbf) == expected


def test_no_other_interval_loses_less_time():
    def lost(interval, cost=3.0, mtbf=3600.0):
        return cost / interval + interval / (2 * mtbf)

    best = best_interval_secs(3.0, 3600.0)
    assert all(lost(best) <= lost(best * factor) for factor in (0.5, 0.9, 1.1, 2.0))
