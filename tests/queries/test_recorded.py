"""Which steps have tensors: what nobody saw has no share."""

from __future__ import annotations

from typing import Any

from barograph.model.step import Mode
from barograph.queries.recorded import recorded_steps


def test_steps_without_tensors_have_no_share(diary: Any) -> None:
    for number in range(100):
        seen = number < 20 or number == 55
        diary.step(number, {"loss:total": 1.0}, {"gradient:fc.weight": [1.0]} if seen else {})
    diary.step(99, {"loss:total": 1.0}, {"output:fc": [1.0]}, mode=Mode.EVAL)

    found = recorded_steps(diary.ended(), columns=10)

    assert (found.first_step, found.last_step, found.count, found.with_tensors) == (0, 99, 100, 21)
    assert found.edges == (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    assert found.shares == (1.0, 1.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0)


def test_a_column_without_steps_is_neither_seen_nor_unseen(diary: Any) -> None:
    diary.step(0, {"loss:total": 1.0}, {"gradient:fc.weight": [1.0]})
    diary.step(9, {"loss:total": 1.0})

    assert recorded_steps(diary.ended(), columns=5).shares == (1.0, None, None, None, 0.0)


def test_what_is_logged_after_the_last_step_is_no_step(diary: Any) -> None:
    for number in range(10):
        diary.step(number, {"loss:total": 1.0}, {"gradient:fc.weight": [1.0]})
    diary.step(10, {"scalar:accuracy": 0.5})

    found = recorded_steps(diary.ended())
    assert (found.last_step, found.count, found.with_tensors) == (9, 10, 10)


def test_a_program_that_only_logs_has_all_steps(diary: Any) -> None:
    for number in range(3):
        diary.step(number, {"scalar:accuracy": 0.5})

    assert recorded_steps(diary.ended()).count == 3


def test_a_run_without_steps_has_no_ruler(diary: Any) -> None:
    diary.begin()

    assert recorded_steps(diary.ended()).count == 0
