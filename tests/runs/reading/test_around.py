"""A step among its neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barograph.errors import UnknownStep
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords, Subject
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.reading.around import around, findings_near, gradient_norm, update_ratio
from barograph.runs.reading.view import StepView

MakeStep = Callable[..., StepRecords]

LOSS = Key(Kind.LOSS, "total")
FIRST = Subject(Key(Kind.GRADIENT, "a.weight"), "Linear", "float32")
SECOND = Subject(Key(Kind.GRADIENT, "b.weight"), "Linear", "float32")


def numbers(views: Any) -> list[int]:
    return [view.step.number for view in views]


def test_five_recorded_steps_on_either_side_are_shown(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(*(make_step(10 * step, {}, {LOSS: 1.0}) for step in range(20)))

    assert numbers(around(workshop.run(), 100).views) == list(range(50, 151, 10))
    assert numbers(around(workshop.run(), 10).views) == list(range(0, 61, 10))


def test_steps_stand_in_the_order_they_happened(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(
        make_step(0, {}, {LOSS: 1.0}, tick=0, optimizer="d"), make_step(0, {}, {LOSS: 2.0}, tick=1, optimizer="g"),
        make_step(1, {}, {LOSS: 3.0}, tick=2, mode=Mode.EVAL), make_step(1, {}, {LOSS: 4.0}, tick=3, optimizer="d"),
    )

    views = around(workshop.run(), 1).views

    assert [(view.step.number, view.step.optimizer, view.scalar(LOSS)) for view in views] == [
        (0, "d", 1.0), (0, "g", 2.0), (1, "", 3.0), (1, "d", 4.0),
    ]


def test_the_greatest_change_comes_first(workshop: Any, make_step: MakeStep) -> None:
    steps = [make_step(step, {FIRST: [1.0], SECOND: [100.0 if step == 3 else 1.0]}) for step in range(5)]
    workshop.finished(*steps)

    changes = around(workshop.run(), 3).changes

    assert [(str(change.key), change.usual, change.factor, change.compared) for change in changes] == [
        ("gradient:b.weight", 1.0, 100.0, 3), ("gradient:a.weight", 1.0, 1.0, 3),
    ]


def test_a_number_that_is_no_longer_finite_is_the_greatest_change(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(
        make_step(0, {FIRST: [1.0, 1.0], SECOND: [1.0]}), make_step(1, {FIRST: [1.0, math.nan], SECOND: [1e30]}),
    )

    worst = around(workshop.run(), 1).changes[0]

    assert (worst.key, worst.nonfinite, worst.nonfinite_before) == (FIRST.key, 1, 0)


@pytest.mark.parametrize(("before", "now", "factor"), [(0.0, 2.0, math.inf), (2.0, 0.0, 0.0), (0.0, 0.0, 1.0)])
def test_from_zero_and_to_zero(
    workshop: Any, make_step: MakeStep, before: float, now: float, factor: float
) -> None:
    workshop.finished(make_step(0, {FIRST: [before]}), make_step(1, {FIRST: [now]}))

    (change,) = around(workshop.run(), 1).changes

    assert change.factor == factor


def test_it_is_compared_with_the_last_ten_steps_that_recorded_its_kind(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(*(make_step(step, {FIRST: [float(step)], **({SECOND: [1.0]} if step % 10 == 0 else {})})
                        for step in range(41)))

    changes = {str(change.key): change for change in around(workshop.run(), 40).changes}

    assert (changes["gradient:a.weight"].compared, changes["gradient:a.weight"].usual) == (10, 34.5)
    assert changes["gradient:b.weight"].compared == 1


def test_steps_of_another_optimizer_are_not_compared_with(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(
        make_step(0, {FIRST: [9.0]}, tick=0, optimizer="g"), make_step(0, {FIRST: [1.0]}, tick=1, optimizer="d"),
        make_step(1, {FIRST: [2.0]}, tick=2, optimizer="d"),
    )

    (change,) = around(workshop.run(), 1).changes

    assert (change.usual, change.compared) == (1.0, 1)


def test_a_step_without_tensors_names_the_nearest_that_have_some(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(*(make_step(step, {FIRST: [1.0]} if step % 4 == 0 else {}, {LOSS: 1.0}) for step in range(10)))

    found = around(workshop.run(), 6)

    assert (found.changes, found.nearest_with_tensors) == ([], [4, 8])
    assert around(workshop.run(), 4).nearest_with_tensors == ()


@pytest.mark.parametrize(("step", "nearest"), [(9, "The nearest recorded step is 7."), (-1, "The nearest recorded "
                                                                                            "step is 3.")])
def test_a_step_outside_the_run_is_answered_with_the_nearest(
    workshop: Any, make_step: MakeStep, step: int, nearest: str
) -> None:
    workshop.finished(make_step(3, {}, {LOSS: 1.0}), make_step(7, {}, {LOSS: 1.0}))

    with pytest.raises(UnknownStep, match=f"No records of step {step}. {nearest}"):
        around(workshop.run(), step)


@pytest.mark.parametrize(("asked", "shown"), [(4, 3), (5, 3), (6, 7), (7, 7)])
def test_for_a_step_that_was_passed_over_the_nearest_is_shown(
    workshop: Any, make_step: MakeStep, asked: int, shown: int
) -> None:
    workshop.finished(make_step(3, {}, {LOSS: 1.0}), make_step(7, {}, {LOSS: 1.0}))

    found = around(workshop.run(), asked)

    assert (found.asked, found.step) == (asked, shown)
    assert [view.step.number for view in found.views] == [3, 7]


def test_a_run_without_steps_says_so(workshop: Any) -> None:
    workshop.finished()

    with pytest.raises(UnknownStep, match=r"No steps were recorded\."):
        around(workshop.run(), 0)


def test_of_several_processes_those_that_made_the_step_are_shown(workshop: Any, make_step: MakeStep) -> None:
    attempt = workshop.claim()
    for first in (0, 100):
        writer = workshop.writer(workshop.worker(attempt=attempt))
        workshop.publish(writer, *(make_step(first + step, {FIRST: [float(first)]}) for step in range(3)))
        writer.close(EndState.FINISHED)

    assert numbers(around(workshop.run(), 101).views) == [100, 101, 102]


def test_norms_of_a_step_are_over_the_whole_model() -> None:
    def summary(value: float) -> Summary:
        return Summary(count=1, min=value, max=value, sum=value, sum_sq=value * value, sum_abs=value)

    update, weight = Key(Kind.UPDATE, "a.weight"), Key(Kind.WEIGHT, "a.weight")
    seen = {FIRST.key: summary(3.0), SECOND.key: summary(4.0), update: summary(1.0), weight: summary(8.0)}
    view = StepView.of(0, seen)

    assert (gradient_norm(view), update_ratio(view)) == (5.0, 0.125)
    assert (gradient_norm(StepView.of(0)), update_ratio(StepView.of(0))) == (None, None)


def test_findings_are_near_where_they_began_were_open_or_closed() -> None:
    finding = Finding("id", "X901", "x", Severity.NOTE, FindingState.OPEN, "m", "r", (), "", "p0", "", Mode.TRAIN,
                      since_step=10, opened_step=10, last_step=10, closed_step=None, opened_unix=0.0)
    closed = replace(finding, state=FindingState.CLOSED, closed_step=20)

    def near(item: Finding, *steps: int) -> bool:
        return bool(findings_near([item], [StepView.of(step) for step in steps]))

    assert [near(finding, 0, 9), near(finding, 5, 15), near(finding, 90, 95)] == [False, True, True]
    assert [near(closed, 5, 15), near(closed, 20, 30), near(closed, 21, 30)] == [True, True, False]
