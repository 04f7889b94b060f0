"""The report of a run, as it stands."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.report.reading import report_of
from barograph.report.savings import Price
from barograph.runs.state.findings import write_event

STEP = {"loss:total": 0.5, "learning_rate:group0": 0.1, "scalar:accuracy": 0.9}
TENSORS = {"weight:fc.weight": [1.0, 2.0], "gradient:fc.weight": [0.5, math.nan]}


@pytest.fixture
def report() -> Callable[..., Any]:
    def made(run: Any, **more: Any) -> Any:
        return report_of(run, clock=ManualClock(), **more)

    return made


def missing(report: Any) -> dict[str, str]:
    return {item.section: item.feed for item in report.missing}


def test_a_training_is_told_with_what_it_has_not(diary: Any, report: Callable[..., Any]) -> None:
    for number in range(3):
        diary.step(number, STEP, TENSORS)

    made = report(diary.ended())

    assert (made.run.name, made.run.state, made.run.steps, made.run.secs) == ("example", "finished", 3, 3.0)
    assert [curve.key for curve in made.losses] == ["loss:total"]
    assert [curve.key for curve in made.numbers] == ["scalar:accuracy", "learning_rate:group0"]
    assert [layer.health for layer in made.layers] == ["not finite"]
    assert len(made.distributions) == 2
    assert "run.save_predictions(targets, predictions)" in missing(made)["Labels and confusion"]
    assert set(missing(made)) == {"Labels and confusion", "Step time by part", "Machine use",
                                  "Residuals"}


def test_a_run_that_nobody_watched_is_not_called_free_of_findings(diary: Any, report: Callable[..., Any]) -> None:
    diary.step(0, STEP)

    judgement = report(diary.ended()).judgement

    assert (judgement.verdict, judgement.watched) == ("This run has not been watched.", False)


def test_an_empty_run_says_that_nobody_trained(new_diary: Any, report: Callable[..., Any]) -> None:
    diary = new_diary()
    diary.begin()
    made = report(diary.ended())

    assert made.run.steps == 0
    assert [item.section for item in made.missing] == ["Everything but the findings"]
    assert made.losses == made.layers == made.classes == made.machine == ()


def test_a_run_that_goes_on_is_told_as_it_stands(
    diary: Any, report: Callable[..., Any], finding: Callable[..., Any]
) -> None:
    diary.step(0, STEP)
    diary.step(1, STEP)
    run = diary.run()
    write_event(diary.store, finding(step=0))

    made = report(run)

    assert made.run.state == "running"
    assert made.savings.so_far
    assert "so far" in made.savings.text


def test_money_is_told_with_a_price(diary: Any, report: Callable[..., Any], finding: Callable[..., Any]) -> None:
    for number in range(10):
        diary.step(number, STEP)
    run = diary.ended()
    write_event(diary.store, finding(step=4))

    made = report(run, price=Price(3600.0))

    assert (made.savings.secs, made.savings.saved, made.savings.cost) == (6.0, 6.0, 10.0)


def test_a_damaged_file_is_named_and_the_rest_is_told(diary: Any, report: Callable[..., Any]) -> None:
    diary.step(0, STEP)
    diary.publish()
    (first,) = [item.name for item in diary.store.list("records")]
    diary.step(1, {"loss:total": 0.25})
    diary.publish()
    data = bytearray(diary.store.get(first))
    data[len(data) // 2] ^= 1
    diary.store.put(first, bytes(data))

    made = report(diary.run())

    assert first in made.damage[0]
    assert [curve.values for curve in made.losses] == [(0.25,)]


def test_of_independent_processes_the_first_is_told(new_diary: Any, report: Callable[..., Any]) -> None:
    diary = new_diary()
    for loss in (1.0, 2.0):
        diary.step(0, {"loss:total": loss}, worker=diary.begin())

    made = report(diary.ended())

    assert (made.run.workers, made.run.shown) == (("p0", "p1"), "p0")
    assert [curve.last for curve in made.losses] == [1.0]


def test_a_model_of_trees_is_not_asked_for_layers(diary: Any, report: Callable[..., Any]) -> None:
    diary.step(0, {"importance:age": 1.0, "loss:total": 0.5})

    made = report(diary.ended())

    assert [item.feature for item in made.importance] == ["age"]
    assert "Health by layer" not in missing(made)
    assert "Trees" in missing(made)
    assert 'run.save("targets", …)' in missing(made)["ROC"]


def test_predictions_that_fit_nothing_are_named(diary: Any, report: Callable[..., Any]) -> None:
    diary.step(0, STEP, saved={"targets": [[1.0]] * 3, "predictions": [1.0, 2.0]})

    assert "Predictions" in missing(report(diary.ended()))


def test_as_json_it_is_strict(diary: Any, report: Callable[..., Any], finding: Callable[..., Any]) -> None:
    diary.step(0, {"loss:total": math.inf, "scalar:x": math.nan}, TENSORS)
    run = diary.ended()
    write_event(diary.store, finding(key=Key(Kind.OUTPUT, "fc")))

    data = json.loads(json.dumps(report(run).to_json(), allow_nan=False))

    assert data["losses"][0]["last"] == "inf"
    assert data["numbers"][0]["last"] is None
    assert data["judgement"]["findings"][0]["evidence"][0]["key"] == "output:fc"


def test_of_many_numbers_the_first_are_told_and_the_others_counted(diary: Any, report: Callable[..., Any]) -> None:
    diary.step(0, {**{f"scalar:n{at}": float(at) for at in range(70)}, "learning_rate:group0": 0.1})

    made = report(diary.ended())

    assert [curve.key for curve in made.numbers] == [f"scalar:n{at}" for at in range(60)]
    assert made.numbers_left_out == 11
