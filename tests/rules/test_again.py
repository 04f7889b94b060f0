"""NonDeterminism."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barograph.judging.judge import Judge
from barograph.model.clock import SystemClock
from barograph.model.facts import Fact
from barograph.rules.again import NonDeterminism
from barograph.rules.base import Unjudged
from barograph.runs.reading.view import StepView
from judging import RATE, TOTAL, causes, facts, said, symptoms

LOSSES = (2.3, 2.2, 2.0, 1.9)


def run(
    losses: Sequence[float], attempt: int, *, asked: float = 1.0, rate: float = 0.1, digest: float = 0.0
) -> list[StepView]:
    return [
        StepView.of(step, {TOTAL: loss, RATE: rate,
                           **facts({Fact.BATCH_DIGEST: digest + step, Fact.DETERMINISTIC: asked})}, attempt=attempt)
        for step, loss in enumerate(losses)
    ]


def test_the_first_step_that_parts_from_the_start_before_is_named() -> None:
    first, *_ = symptoms(NonDeterminism(), [*run(LOSSES, 0), *run((2.3, 2.2, 2.0000000001, 1.9), 1)])

    assert first.message == ("Step 2 gave a different loss when run again with the same batch, after 2 recorded "
                             "steps that agreed bit for bit.")
    assert first.since == 2
    assert first.evidence[0].text == "2.0000000001 now, 2.0 before"
    assert causes(first) == ["nondeterminism"]


@pytest.mark.parametrize(
    "again",
    [
        run(LOSSES, 1),
        run((2.2, 2.1, 1.9, 1.8), 1),
        run((2.3, 2.1, 1.9, 1.8), 1, rate=0.2),
        run((2.3, 2.1, 1.9, 1.8), 1, digest=100.0),
        run((2.3, 2.1, 1.9, 1.8), 0),
    ],
    ids=["the same", "from another state", "at another rate", "with other data", "nothing was started again"],
)
def test_what_is_no_repetition_or_agrees_is_let_pass(again: list[StepView]) -> None:
    assert symptoms(NonDeterminism(), [*run(LOSSES, 0), *again]) == []


def test_only_who_asks_for_determinism_is_judged() -> None:
    views = [*run(LOSSES, 0, asked=0.0), *run((2.3, 2.1, 1.9, 1.8), 1, asked=0.0)]

    assert said(NonDeterminism(), views)[-1] == [Unjudged("the script does not ask for deterministic algorithms")]


def test_its_memory_lives_on_when_a_run_is_started_again() -> None:
    judge = Judge(NonDeterminism(), SystemClock())
    for view in run(LOSSES, 0):
        judge.take(view)
    judge.new_attempt("p0")

    findings = [item for view in run((2.3, 2.1, 1.9, 1.8), 1) for item in judge.take(view)[0]]

    assert [(item.code, item.attempt, item.since_step) for item in findings] == [("P105", 1, 1)]


def test_it_remembers_so_many_steps_and_no_more() -> None:
    memory: dict[str, dict[str, object]] = {}
    said(NonDeterminism(num_steps=3), run(LOSSES * 5, 0), memory)

    assert list(memory["now"]) == ["0", "1", "2"]
