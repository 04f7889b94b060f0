"""Another run read along: the same step stands beside each, whatever either of them left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from barograph.errors import NotARun
from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.records import StepRecords
from barograph.model.step import Mode, Step
from barograph.rules.across_runs import SimilarAcrossRuns
from barograph.runs.reading.view import StepView
from barograph.store.base import Store
from barograph.watch.beside import AGAIN_SECS, Beside
from barograph.watch.loop import Watcher

LOSS = Key(Kind.LOSS, "total")


def at(number: int, mode: Mode = Mode.TRAIN) -> StepView:
    return StepView.of(Step(number, number, mode=mode), {LOSS: 1.0})


def losses(beside: Beside, *numbers: int) -> list[float | None]:
    return [view and view.scalar(LOSS) for view in (beside.of(at(number)) for number in numbers)]


def test_the_step_of_the_same_number_stands_beside(training: Any, store: Store, clock: ManualClock) -> None:
    training.steps(0.5, 0.4, 0.3, 0.2)
    training.end()
    beside = Beside(store, clock)
    assert losses(beside, 0, 2, 3, 4) == [0.5, 0.3, 0.2, None]


def test_where_steps_go_back_it_goes_back(training: Any, store: Store, clock: ManualClock) -> None:
    training.steps(0.5, 0.4, 0.3)
    assert losses(Beside(store, clock), 0, 2, 0, 1) == [0.5, 0.3, 0.5, 0.4]


def test_an_evaluation_that_the_other_has_not_holds_nothing_up(training: Any, store: Store, clock: ManualClock) -> None:
    for first in range(0, 1200, 100):
        training.steps(*[0.5] * 100, first=first)
    beside = Beside(store, clock)
    assert losses(beside, 0) == [0.5]
    assert beside.of(at(1, Mode.EVAL)) is None
    # Had it been looked for to the end of the run, these were kept no more.
    assert losses(beside, 1, 2, 3) == [0.5, 0.5, 0.5]


def test_of_two_evaluations_after_one_step_the_second_stands_beside_the_second(
    training: Any, store: Store, clock: ManualClock
) -> None:
    for tick, loss in enumerate((0.7, 0.9)):
        training.writer.put(StepRecords(Step(tick, 10, mode=Mode.EVAL), (), np.empty((0, 10)), scalars={LOSS: loss}))
    training.end()
    beside = Beside(store, clock)
    found = [beside.of(at(10, Mode.EVAL)) for _ in range(3)]
    assert [view and view.scalar(LOSS) for view in found] == [0.7, 0.9, None]


def test_a_run_that_goes_on_is_asked_again_after_a_while(training: Any, store: Store, clock: ManualClock) -> None:
    training.steps(0.5)
    beside = Beside(store, clock)
    assert losses(beside, 0, 1) == [0.5, None]
    training.steps(0.4, 0.3, first=1)
    clock.advance(AGAIN_SECS)
    assert losses(beside, 2) == [0.3]


def test_a_place_without_a_run_is_an_error_once_in_a_while(store: Store, clock: ManualClock) -> None:
    beside = Beside(store, clock)
    with pytest.raises(NotARun):
        beside.of(at(0))
    assert beside.of(at(0)) is None


def watched(new_store: Callable[[], Store], new_training: Any, clock: ManualClock, *others: float) -> Watcher:
    """A watcher of a run that compares it with one of these losses, all of it judged; with none there is no other."""
    stores = {"this": new_store(), "other": new_store()}
    for name, values in (("this", (0.5, 0.4, 0.3)), ("other", others)):
        if values:
            training = new_training(stores[name], clock)
            training.steps(*values)
            training.end()
    watcher = Watcher(stores["this"], [SimilarAcrossRuns(other="other")], clock=clock, open_run=stores.__getitem__)
    watcher.poll()
    return watcher


def test_a_watcher_compares_two_runs(new_store: Any, new_training: Any, clock: ManualClock) -> None:
    (finding,) = watched(new_store, new_training, clock, 0.5, 0.4, 0.31).findings
    assert finding.message.startswith("Step 2 is the first that differs from other: loss:total, value 0.3 here, 0.31")
    assert watched(new_store, new_training, clock, 0.5, 0.4, 0.3).findings == ()


def test_another_run_that_is_not_there_is_told_and_nothing_is_judged(
    new_store: Any, new_training: Any, clock: ManualClock
) -> None:
    watcher = watched(new_store, new_training, clock)
    (problem,) = watcher.problems
    assert problem.startswith("The run other, which this one is to be compared with, cannot be read: ")
    (unfed,) = watcher.not_evaluated()
    assert unfed.reason.endswith("this run and other have no recorded step in common.")


ACCURACY = Key(Kind.SCALAR, "accuracy")


@pytest.mark.parametrize("logs", ["this", "other", "both"])
def test_what_is_logged_apart_from_its_step_does_not_stand_beside_a_step(
    training: Any, store: Store, clock: ManualClock, logs: str
) -> None:
    for number in range(3):
        if logs != "this":
            training.writer.log("accuracy", 0.5, number, Mode.TRAIN, 0.0)
            clock.advance(1.0)
            training.writer.turn()
        training.steps(0.5 - 0.1 * number, first=number)
    training.end()
    beside = Beside(store, clock)
    found = []
    for number in range(3):
        if logs != "other":
            beside.of(StepView.of(Step(2 * number, number), {ACCURACY: 0.5}))
        found += losses(beside, number)
    assert found == [0.5, 0.4, pytest.approx(0.3)]
