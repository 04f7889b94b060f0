"""What is read from the columns of a step belongs to that step."""

from __future__ import annotations

import threading

from barograph.model.key import Key, Kind
from barograph.model.summary import Summary
from barograph.rules.columns import learning_rate, stated_loss, table_of
from barograph.runs.reading.view import StepView

RATE, LOSS, WEIGHT = Key(Kind.LEARNING_RATE, "group0"), Key(Kind.LOSS, "total"), Key(Kind.WEIGHT, "fc.weight")


def view_of(number: int) -> StepView:
    return StepView.of(number, {RATE: 0.1 * number, LOSS: float(number), WEIGHT: Summary(count=2, sum=float(number))})


def read(view: StepView) -> tuple[float | None, float, float]:
    found = stated_loss(view)
    assert found is not None
    return learning_rate(view), found[1], float(table_of(view, Kind.WEIGHT).column("sum")[0])


def test_views_that_take_turns_are_not_taken_for_each_other() -> None:
    one, other = view_of(1), view_of(2)
    assert [read(view) for view in (one, other, one, other)] == 2 * [(0.1, 1.0, 1.0), (0.2, 2.0, 2.0)]


def test_threads_that_look_at_different_steps_see_their_own() -> None:
    wrong: list[int] = []

    def look(number: int) -> None:
        for _ in range(2000):
            if read(view_of(number)) != (0.1 * number, float(number), float(number)):
                wrong.append(number)

    threads = [threading.Thread(target=look, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_loss_is_remembered_as_none() -> None:
    nothing = StepView.of(0, {WEIGHT: Summary(count=1)})
    assert [stated_loss(nothing), stated_loss(nothing), learning_rate(nothing)] == [None, None, None]
