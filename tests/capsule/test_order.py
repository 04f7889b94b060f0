"""How far a replay was the same."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from barograph.capsule.grading import graded
from barograph.capsule.guilty import Guilty
from barograph.capsule.order import Grade, ReplayOrder, order_from_text, result_from_text


def seen(loss: float = 1.5, **norms: float) -> dict[str, Any]:
    gradients = {name: {"digest": repr(norm), "norm": norm if math.isfinite(norm) else None}
                 for name, norm in norms.items()}
    return {"losses": [loss.hex()], "gradients": gradients}


def grade(then: dict[str, Any], now: dict[str, Any], held: str = "not finite", bound: float | None = None) -> Grade:
    return graded(then, now, held=held, bound=bound).grade


def test_the_same_bits_are_bitwise() -> None:
    result = graded(seen(math.nan, w=math.nan), seen(math.nan, w=math.nan), held="not finite", bound=None)
    assert result.grade is Grade.BITWISE
    assert result.text == "The loss and every gradient are bit-identical."
    assert [item.equal for item in result.gradients] == [True]


def test_an_equal_loss_alone_is_never_called_exact() -> None:
    result = graded(seen(1.5, w=2.0, b=1.0), seen(1.5, w=2.0002, b=1.0), held="norm", bound=1.0)
    assert result.grade is Grade.SAME_EVENT
    assert result.text == "Reproduced; 1 of 2 gradients differ, in norm by at most 0.01%."


@pytest.mark.parametrize(("held", "bound", "now", "expected"), [
    ("not finite", None, seen(1.0, w=math.nan), Grade.SAME_EVENT),
    ("not finite", None, seen(math.inf, w=1.0), Grade.SAME_EVENT),
    ("not finite", None, seen(1.0, w=1.0), Grade.NOT_REPRODUCED),
    ("norm", 10.0, seen(1.0, w=11.0), Grade.SAME_EVENT),
    ("norm", 10.0, seen(1.0, w=math.nan), Grade.SAME_EVENT),
    ("norm", 10.0, seen(1.0, w=9.0), Grade.NOT_REPRODUCED),
    ("finding", None, seen(2.0005, w=1.0), Grade.SAME_EVENT),
    ("finding", None, seen(2.1, w=1.0), Grade.NOT_REPRODUCED),
])
def test_the_event_is_what_the_step_was_held_for(held: str, bound: float | None, now: Any, expected: Grade) -> None:
    assert grade(seen(2.0, w=12.0), now, held, bound) is expected


def test_a_gradient_that_is_not_there_now_differs() -> None:
    result = graded(seen(1.0, w=1.0, b=1.0), seen(1.0, w=1.0), held="not finite", bound=None)
    assert result.grade is Grade.NOT_REPRODUCED
    assert [(item.path, item.equal) for item in result.gradients] == [("w", True), ("b", False)]


def test_orders_and_results_come_through_text() -> None:
    order = ReplayOrder("runs/a", "", "result.json", opens_pickle=True, as_made=("losses",))
    assert order_from_text(order.to_text()) == order
    result = graded(seen(1.0, w=1.0), seen(2.0, w=3.0), held="norm", bound=0.5, notes=("other threads",))
    assert result_from_text(result.to_text()) == result
    result = replace(result, results=result.gradients, guilty=Guilty((3,), True, 5))
    assert result_from_text(result.to_text()) == result


def test_without_digests_the_norms_are_compared_and_that_is_said() -> None:
    then = {"losses": ["0x1.0p+0"], "gradients": {"w": {"norm": 2.0}, "b": {"norm": None}}}
    now = {"losses": ["0x1.0p+0"], "gradients": {"w": {"digest": "a", "norm": 2.0}, "b": {"digest": "b", "norm": None}}}
    result = graded(then, now, held="not finite", bound=None)
    assert result.grade is Grade.BITWISE
    assert result.text.endswith("only norms were recorded.")
    now["gradients"]["w"]["norm"] = 2.5
    assert graded(then, now, held="norm", bound=1.0).grade is Grade.SAME_EVENT


def returned(loss: float, **norms: float) -> dict[str, Any]:
    return {"losses": [loss.hex()], "gradients": {}, "results": seen(**norms)["gradients"]}


def test_a_step_that_is_judged_by_its_results_is_the_same_where_all_of_them_are() -> None:
    then = returned(math.nan, w=math.nan, best=math.inf)
    assert graded(then, then, held="not finite", bound=None).grade is Grade.BITWISE
    other = graded(then, returned(math.nan, w=math.nan, best=1.0), held="not finite", bound=None)
    assert (other.grade, [item.equal for item in other.results]) == (Grade.SAME_EVENT, [True, False])
    sound = graded(then, returned(1.0, w=1.0, best=1.0), held="not finite", bound=None)
    assert sound.grade is Grade.NOT_REPRODUCED
    assert sound.finite


def test_where_nothing_was_seen_nothing_is_called_the_same() -> None:
    nothing: dict[str, Any] = {"losses": [], "gradients": {}}
    assert graded(nothing, nothing, held="not finite", bound=None).grade is Grade.NOT_REPRODUCED
