"""What waits is bounded; what does not fit is dropped whole and counted."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from barograph.model.key import Key, Kind
from barograph.model.records import StepRecords
from barograph.model.step import Mode, Step
from barograph.runs.format.pending import POINT, Recorded
from barograph.runs.writing.inbox import Inbox

MakeRecords = Callable[..., StepRecords]


def test_steps_come_out_in_the_order_they_went_in(make_records: MakeRecords) -> None:
    inbox = Inbox(10**6)
    for tick in range(3):
        assert inbox.put(make_records(tick))
    steps, points = inbox.take()
    assert [pending.step.tick for pending, _ in steps] == [0, 1, 2]
    assert len(points.points) == 0


def test_a_step_that_does_not_fit_is_dropped_whole_and_counted(make_records: MakeRecords) -> None:
    size_bytes = Recorded(make_records(0)).size_bytes
    inbox = Inbox(2 * size_bytes + 1)
    assert [inbox.put(make_records(tick)) for tick in range(4)] == [True, True, False, False]
    assert inbox.dropped_steps == 2
    assert len(inbox.take()[0]) == 2


def test_what_was_taken_counts_until_it_is_let_go(make_records: MakeRecords) -> None:
    size_bytes = Recorded(make_records(0)).size_bytes
    inbox = Inbox(size_bytes)
    assert inbox.put(make_records(0))
    inbox.take()
    assert not inbox.put(make_records(1))
    inbox.hold(-size_bytes)
    assert inbox.put(make_records(2))


def test_logged_numbers_come_out_as_they_went_in() -> None:
    inbox = Inbox(10**6)
    inbox.put(StepRecords(Step(4, 4)))
    inbox.log("a", 0.5, 7, Mode.TRAIN, 1.5)
    inbox.log("b", 2, 8, Mode.EVAL, 2.5)
    inbox.log("a", float("nan"), 9, Mode.TRAIN, 3.5)
    _, points = inbox.take()
    assert [(item.key, item.mode, item.logged) for item in points.series] == [
        (Key(Kind.SCALAR, "a"), Mode.TRAIN, True), (Key(Kind.SCALAR, "b"), Mode.EVAL, True)]
    assert points.points["series"].tolist() == [0, 1, 0]
    assert points.points["step"].tolist() == [7, 8, 9]
    assert points.points["tick"].tolist() == [5, 5, 5]
    np.testing.assert_array_equal(points.points["value"], [0.5, 2.0, np.nan])


def test_logged_numbers_beyond_the_limit_are_dropped_and_counted() -> None:
    inbox = Inbox(10 * POINT.itemsize)
    for number in range(25):
        inbox.log("a", 0.5, number, Mode.TRAIN, 0.0)
    assert inbox.dropped_points == 15
    assert len(inbox.take()[1].points) == 10


def test_steps_and_logged_numbers_together_keep_within_the_limit(make_records: MakeRecords) -> None:
    size_bytes = Recorded(make_records(0)).size_bytes
    inbox = Inbox(3 * size_bytes)
    for number in range(1000):
        inbox.log("a", 0.5, number, Mode.TRAIN, 0.0)
    assert not inbox.put(make_records(0))
    assert inbox.waiting_points * POINT.itemsize <= 3 * size_bytes
    inbox = Inbox(3 * size_bytes)
    assert [inbox.put(make_records(tick)) for tick in range(4)] == [True, True, True, False]
    inbox.log("a", 0.5, 0, Mode.TRAIN, 0.0)
    assert (inbox.waiting_points, inbox.dropped_points) == (0, 1)


def test_a_step_of_a_few_numbers_comes_out_as_a_step() -> None:
    inbox = Inbox(10**6)
    assert inbox.put_numbers(Step(3, 2, "d"), {Key(Kind.LOSS, "loss"): 0.5, Key(Kind.LEARNING_RATE, "lr"): 0.1})
    _, points = inbox.take()
    assert points.points["tick"].tolist() == [3, 3]
    assert {item.optimizer for item in points.series} == {"d"}
    assert not any(item.logged for item in points.series)


def test_a_step_of_a_few_numbers_is_never_split() -> None:
    inbox = Inbox(10**6)
    numbers = {Key(Kind.LOSS, name): 0.5 for name in "abc"}
    for tick in range(5):
        inbox.put_numbers(Step(tick, tick), numbers)
    pieces = list(inbox.take()[1].pieces(4))
    assert [piece.points["tick"].tolist() for piece in pieces] == [[0, 0, 0, 1, 1, 1], [2, 2, 2, 3, 3, 3], [4, 4, 4]]


def test_nothing_is_taken_in_once_it_is_shut(make_records: MakeRecords) -> None:
    inbox = Inbox(10**6)
    inbox.shut()
    assert not inbox.put(make_records(0))
    inbox.log("a", 0.5, 0, Mode.TRAIN, 0.0)
    inbox.hold(-100)
    inbox.log("a", 0.5, 0, Mode.TRAIN, 0.0)
    assert (inbox.dropped_steps, inbox.dropped_points) == (1, 2)


def test_many_threads_log_at_once_and_no_number_is_torn() -> None:
    inbox = Inbox(10**8)
    each, threads_count = 20_000, 4
    taken: list[np.ndarray] = []

    def log(thread: int) -> None:
        for number in range(each):
            inbox.log(f"series {thread}", float(number), number, Mode.TRAIN, float(number))

    threads = [threading.Thread(target=log, args=(thread,)) for thread in range(threads_count)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken.append(inbox.take()[1].points)
    for thread in threads:
        thread.join()
    points = np.concatenate([*taken, inbox.take()[1].points])
    assert len(points) == each * threads_count
    np.testing.assert_array_equal(points["step"], points["value"])
    for series in range(threads_count):
        assert points["step"][points["series"] == series].tolist() == list(range(each))
