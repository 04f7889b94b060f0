"""How far a replay was the same."""

from __future__ import annotations

from typing import Any

import pytest

from barograph.capsule.grading import graded


def seen(loss: float, norm: float | None, digest: str = "a") -> dict[str, Any]:
    return {"losses": [loss.hex()], "gradients": {"w": {"digest": digest, "norm": norm}}}


NAN = float("nan")


@pytest.mark.parametrize(("then", "now", "held", "grade"), [
    (seen(2.0, 9.0), seen(2.0, 9.0), "norm", "bitwise"),
    (seen(2.0, 9.0), seen(2.0, 8.5, "b"), "norm", "same event"),
    (seen(2.0, 9.0), seen(2.0, 4.0, "b"), "norm", "not reproduced"),
    (seen(NAN, None), seen(NAN, None, "b"), "not finite", "same event"),
    (seen(NAN, None), seen(2.0, 4.0, "b"), "not finite", "not reproduced"),
    # Clipped: what was seen does not show it, and the loss tells.
    (seen(2.0, 0.5), seen(2.0001, 0.5, "b"), "norm", "same event"),
    (seen(2.0, 0.5), seen(1.0, 0.5, "b"), "norm", "not reproduced"),
    (seen(2.0, 0.5), seen(2.0001, 0.5, "b"), "not finite", "same event"),
    (seen(2.0, 0.5), seen(1.0, 0.5, "b"), "not finite", "not reproduced"),
    (seen(2.0, 0.5), seen(2.0001, 0.5, "b"), "loss", "same event"),
    # A step that was compiled, of whose loss nobody heard.
    ({**seen(2.0, None), "losses": []}, seen(2.0, None), "not finite", "bitwise"),
    ({**seen(2.0, None), "losses": []}, seen(2.0, None, "b"), "not finite", "same event"),
])
def test_what_the_step_was_held_for_happened_again_or_not(
    then: dict[str, Any], now: dict[str, Any], held: str, grade: str
) -> None:
    assert graded(then, now, held=held, bound=5.0 if held == "norm" else None).grade == grade
