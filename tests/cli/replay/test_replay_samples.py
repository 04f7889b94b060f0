"""What is said of the samples that make a step fail."""

from __future__ import annotations

import math
from typing import Any

import pytest

from barograph.capsule.failing import Failing
from barograph.capsule.guilty import Guilty
from barograph.capsule.order import Grade, GradientSeen, ReplayOrder, ReplayResult
from barograph.cli.replay.replay_samples import came_from_another, failing_batch, guilt_sentence, guilty_of
from barograph.errors import ReplayFailed
from barograph.model.capsule import Held

NOT_FINITE = Failing(Held.NOT_FINITE)
WHOLE = ReplayResult(Grade.BITWISE, "", losses=((math.nan, math.nan),), batches=(8,))


def made_again(bad: set[int], fewest: int) -> Any:
    """Return what makes a step again, of a script that takes no batch with fewer different samples."""

    def make(order: ReplayOrder, *, quiet: bool) -> ReplayResult:
        if len(set(order.rows)) < fewest:
            raise ReplayFailed("The script ended with exit code 1 before its training began a step.")
        loss = math.nan if bad & set(order.rows) else 1.0
        return ReplayResult(Grade.BITWISE, "", losses=((math.nan, loss),))

    return make


def found(bad: set[int], fewest: int) -> Guilty:
    return guilty_of(made_again(bad, fewest), ReplayOrder("somewhere", "", ""), WHOLE, 0, NOT_FINITE)


def test_the_guilty_one_is_named() -> None:
    assert guilt_sentence(found({5}, 1), 0, (8,)) == "sample 5, of 8: it fails alone, and without it the step is finite"


def test_where_no_part_of_the_batch_can_be_made_nothing_is_said_of_the_samples() -> None:
    assert guilt_sentence(found({5}, 9), 0, (8,)) == (
        "unknown: the step cannot be replayed with parts of the batch. The script ended with exit code 1 before its "
        "training began a step.")


@pytest.mark.parametrize("bad", [{1, 6}])
def test_where_some_parts_can_be_made_these_tell(bad: set[int]) -> None:
    assert not found(bad, 2).failure


def test_what_came_with_the_gradients_of_another_worker_is_told_from_what_is_its_own() -> None:
    lost = (GradientSeen("w", True, math.nan, math.nan),)
    averaged = ReplayResult(Grade.BITWISE, "", losses=((1.0, 1.0),), gradients=lost, batches=(8,))
    assert came_from_another(averaged, 2)
    assert not came_from_another(averaged, 1)
    assert not came_from_another(WHOLE, 2)


def test_the_batch_of_the_greatest_loss_is_asked_where_the_step_fails() -> None:
    losses = [ReplayResult(Grade.BITWISE, "", losses=tuple((loss, loss) for loss in some), batches=(8, 8))
              for some in ((3.0, 4.0), (1.0, 2.0))]
    assert [failing_batch(result, Failing(Held.LOSS, 5.0)) for result in losses] == [1, None]


def test_of_several_workers_another_may_be_to_blame_where_any_sample_of_one_fails() -> None:
    assert guilt_sentence(Guilty((), None, 9, any_fails=True), 0, (8,), others=True) == (
        "no sample of this worker: the step fails with any of them, so the fault is not in the samples or came from "
        "another worker. Replay that worker's capsule, in the folder next to this one")


def test_what_is_said_of_a_step_that_was_finite() -> None:
    assert guilt_sentence(Guilty((5,), True, 9), 0, (8,), finite=True) == (
        "sample 5, of 8: it fails alone, and without it the step passes")
