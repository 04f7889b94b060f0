"""Whether answers have anything to do with labels."""

from __future__ import annotations

import pytest

from barograph.model.key import Key, Kind
from barograph.rules.base import Memory
from barograph.rules.predictions import are_unrelated, note_predictions
from barograph.runs.reading.view import StepView
from judging import confusion


def seen(*pairs: dict[tuple[int, int], float], times: int = 1) -> Memory:
    memory: Memory = {}
    for step in range(times):
        for item in pairs:
            note_predictions(StepView.of(step, {Key(Kind.LOSS, "total"): 1.0, **confusion(item)}), memory)
    return memory


@pytest.mark.parametrize(("pairs", "expected"), [
    ({(0, 0): 50.0, (0, 1): 70.0, (1, 0): 50.0, (1, 1): 70.0}, True),
    ({(0, 0): 70.0, (0, 1): 50.0, (1, 0): 50.0, (1, 1): 70.0}, False),
    ({(0, 0): 50.0, (0, 1): 70.0, (1, 0): 70.0, (1, 1): 50.0}, False),  # the wrong way round is no accident, either
    ({(0, 1): 100.0, (1, 1): 140.0}, True),  # one answer for all
    ({(0, 1): 20.0, (1, 1): 220.0}, False),  # one answer where nearly all labels are one
    ({(1, 1): 240.0}, False),  # one label
    ({(0, 0): 10.0, (0, 1): 14.0, (1, 0): 10.0, (1, 1): 14.0}, False),  # too few
])
def test_answers_are_unrelated_where_they_are_as_by_lot(pairs: dict[tuple[int, int], float], expected: bool) -> None:
    assert are_unrelated(seen(pairs), "cross_entropy") is expected


def test_the_last_answers_decide() -> None:
    by_lot, learnt = ({(0, 0): 5.0, (0, 1): 7.0, (1, 0): 5.0, (1, 1): 7.0}, {(0, 0): 12.0, (1, 1): 12.0})
    memory = seen(by_lot, times=50)
    assert are_unrelated(memory, "cross_entropy")
    for step in range(50, 80):
        note_predictions(StepView.of(step, confusion(learnt)), memory)
    assert not are_unrelated(memory, "cross_entropy")


def test_with_more_classes_more_labels_are_asked_for() -> None:
    evenly = {(target, prediction): 4.0 for target in range(10) for prediction in range(10)}

    assert not are_unrelated(seen(evenly), "cross_entropy")
    assert are_unrelated(seen(evenly, times=5), "cross_entropy")
    assert not are_unrelated(seen(evenly, times=5), "nll_loss")
