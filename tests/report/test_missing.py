"""What is not shown, and what would feed it."""

from __future__ import annotations

from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.model.step import Mode
from barograph.report.reading import report_of


def missing(run: Any) -> dict[str, tuple[str, str]]:
    return {item.section: (item.reason, item.feed) for item in report_of(run, clock=ManualClock()).missing}


def test_labels_without_answers_ask_for_answers(diary: Any) -> None:
    diary.step(0, {"label:ce[1]": 3.0})

    reason, feed = missing(diary.ended())["Confusion"]

    assert reason == "labels recorded, but no predictions."
    assert "run.save_predictions(targets, predictions)" in feed


def test_answers_in_training_alone_ask_for_an_evaluation(diary: Any) -> None:
    diary.step(0, {"confusion:ce[1,1]": 3.0})

    assert "model.eval()" in missing(diary.ended())["Confusion in evaluation"][1]


def test_answers_in_an_evaluation_ask_for_scores_alone(diary: Any) -> None:
    diary.step(0, {"confusion:ce[1,1]": 3.0}, mode=Mode.EVAL)

    not_missed = {"Labels and confusion", "Confusion", "Confusion in evaluation", "Residuals"}

    assert not_missed & set(missing(diary.ended())) == set()


def test_tensors_without_histograms_ask_for_them(diary: Any) -> None:
    diary.step(0, tensors={"weight:fc.weight": [1.0]}, histogram=False)

    told = missing(diary.ended())

    assert "Health by layer" not in told
    assert told["Distributions"][0] == "no histograms recorded."


@pytest.mark.parametrize("section", ["Losses", "Health by layer", "Distributions", "Machine use",
                                     "Step time by part"])
def test_of_a_run_that_holds_one_number_everything_else_is_named(diary: Any, section: str) -> None:
    diary.step(0, {"scalar:accuracy": 0.5})

    assert all(missing(diary.ended())[section])
