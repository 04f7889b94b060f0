"""What is read of a step while it is made is what would be read of it afterwards, and of one that fails nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.array_recipes import About
from barograph.capture.session import Session
from barograph.capture.this_worker import Rank
from barograph.model.key import Key, Kind
from barograph.model.manifest import Heartbeat
from barograph.model.records import StepRecords
from barograph.model.selection import Histogram, Selection
from barograph.model.settings import Settings
from capture_writer import ListWriter

ABOUT = About({"relu": "ReLU", "drop": "Dropout"}, {})
EVERYTHING = Selection("mine", kinds=frozenset({Kind.OUTPUT, Kind.INPUT, Kind.GRADIENT, Kind.CUSTOM}),
                       histogram=Histogram.EXACT, units=True, raw=True)
BATCHES = [np.array([[0.1, -2.0, np.nan], [0.0, 1.5, 7.0]]), np.array([[0.3, 0.0, 1e-9]]),
           np.array([[np.inf, 3.0, 4.0]])]


class Recorded:
    """An integration whose steps land in a list."""

    def __init__(self, *collections: Selection) -> None:
        self._writer = ListWriter()
        wanted = Settings(strict=True, budget=None, preset="free", collections=collections or (EVERYTHING,))

        def open_writer(rank: Rank, status: Callable[[], Heartbeat]) -> Any:
            return self._writer

        self.session = Session(wanted, (), open_writer)
        self.integration = ArrayIntegration(self.session)

    @property
    def steps(self) -> list[StepRecords]:
        return self._writer.steps

    def read(self, kind: Kind, arrays: dict[str, Any], *, fails: bool = False) -> None:
        readings = self.integration.new_readings()
        for path, array in arrays.items():
            readings.read(kind, path, lambda array=array: array, ABOUT)
        if not fails:
            self.integration.take_readings(readings)


def bits(records: StepRecords) -> dict[str, Any]:
    """Return all that is told of each tensor, by key."""
    assert records.moments is not None
    assert records.exponents is not None
    return {str(subject.key): (
        subject.layer, subject.dtype, records.moments[row].tobytes(), records.exponents[row].tobytes(),
        (records.units[row].count, records.units[row].columns.tobytes()) if row in records.units else None,
        records.tensors[subject.key].data if subject.key in records.tensors else None,
    ) for row, subject in enumerate(records.subjects)}


def test_of_calls_that_make_one_step_the_same_is_told_as_when_they_are_taken_whole() -> None:
    now, then = Recorded(), Recorded()
    for batch in BATCHES:
        now.read(Kind.OUTPUT, {"relu": batch, "drop": batch.astype(np.float16)})
        then.integration.take(Kind.OUTPUT, {"relu": batch, "drop": batch.astype(np.float16)}, layers=ABOUT.layers)
    for recorded in (now, then):
        recorded.integration.end_step(loss=1.0)
    assert bits(now.steps[0]) == bits(then.steps[0])


def test_calls_of_one_layer_in_a_step_are_merged_in_turn() -> None:
    now, then = Recorded(), Recorded()
    then.integration.take(Kind.OUTPUT, {"relu": np.array([[5.0, 6.0, 7.0]])}, layers=ABOUT.layers)
    now.integration.take(Kind.OUTPUT, {"relu": np.array([[5.0, 6.0, 7.0]])}, layers=ABOUT.layers)
    readings = now.integration.new_readings()
    for batch in BATCHES:
        readings.read(Kind.OUTPUT, "relu", lambda batch=batch: batch, ABOUT)
        then.integration.take(Kind.OUTPUT, {"relu": batch}, layers=ABOUT.layers)
    now.integration.take_readings(readings)
    for recorded in (now, then):
        recorded.integration.end_step(loss=1.0)
    assert bits(now.steps[0]) == bits(then.steps[0])


def test_of_a_call_that_fails_nothing_is_told_but_what_the_script_has_saved() -> None:
    recorded = Recorded()
    recorded.read(Kind.OUTPUT, {"relu": BATCHES[0]})
    recorded.integration.save("mine", [1.0, 2.0])
    recorded.read(Kind.OUTPUT, {"relu": BATCHES[1], "drop": BATCHES[2]}, fails=True)
    recorded.integration.end_step(loss=1.0)
    alone = Recorded()
    alone.read(Kind.OUTPUT, {"relu": BATCHES[0]})
    alone.integration.save("mine", [1.0, 2.0])
    alone.integration.end_step(loss=1.0)
    found = {key: value for key, value in bits(recorded.steps[0]).items() if key != "output:drop"}
    assert found == bits(alone.steps[0])
    assert Key(Kind.OUTPUT, "drop") not in recorded.steps[0].tensors
    assert recorded.session.seen.outputs == {"relu"}


def test_a_gradient_that_comes_twice_is_the_last_one() -> None:
    recorded = Recorded()
    readings = recorded.integration.new_readings()
    for number in (1.0, 2.0):
        readings.read(Kind.GRADIENT, "w", lambda number=number: np.full(3, number), ABOUT)
    recorded.integration.take_readings(readings)
    recorded.integration.end_step(loss=1.0)
    moments = recorded.steps[0].moments
    assert moments is not None
    assert (moments[0][0], moments[0][7]) == (3, 6.0)


def test_what_is_not_taken_is_not_asked_for() -> None:
    recorded = Recorded(Selection("mine", kinds=frozenset({Kind.OUTPUT})))
    readings = recorded.integration.new_readings()
    readings.read(Kind.INPUT, "relu", lambda: pytest.fail("it was asked for"), ABOUT)
    recorded.integration.take_readings(readings)
    recorded.integration.end_step(loss=1.0)
    assert recorded.steps[0].subjects == ()


def test_what_has_no_statistics_is_named_and_the_rest_is_read() -> None:
    recorded = Recorded()
    recorded.read(Kind.OUTPUT, {"relu": np.array(["text"]), "drop": BATCHES[0]})
    recorded.integration.end_step(loss=1.0)
    assert [str(subject.key) for subject in recorded.steps[0].subjects] == ["output:drop"]
    assert any("relu" in reason for reason in recorded.session.seen.reasons.values())


def test_many_tensors_find_room() -> None:
    recorded = Recorded(Selection("mine", kinds=frozenset({Kind.OUTPUT}), histogram=Histogram.SAMPLED))
    recorded.read(Kind.OUTPUT, {f"layer{number}": np.full(2, float(number)) for number in range(600)})
    recorded.integration.end_step(loss=1.0)
    moments = recorded.steps[0].moments
    assert moments is not None
    assert moments[:, 7].tolist() == [2.0 * number for number in range(600)]
