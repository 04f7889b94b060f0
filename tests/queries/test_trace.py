"""Which samples each step used."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from barograph.errors import UnknownName
from barograph.queries.trace import data_of_step, parting_to_json, seen_name, seen_sample
from barograph.runs.format.traced import TracedBatch, is_called
from barograph.runs.reading.trace import Parting, Trace


def batch(step: int, samples: list[int], names: tuple[str, ...] = ()) -> TracedBatch:
    return TracedBatch(0, "p0", step, step, "", 0, "Pictures", 6, 0, len(samples), None, np.array(samples, np.int64),
                       names or ("",) * len(samples))


class Batches:
    """Some batches, asked as a trace is."""

    def __init__(self, *batches: TracedBatch) -> None:
        self._batches = batches

    def at(self, step: int, *, before: int = 0) -> tuple[TracedBatch, ...]:
        return tuple(item for item in self._batches if step - before <= item.step <= step)

    def seeing(self, sample: Any) -> tuple[TracedBatch, ...]:
        return tuple(item for item in self._batches if item.rows_of(sample))

    def of_file(self, name: str) -> tuple[TracedBatch, ...]:
        found = tuple(item for item in self._batches if any(is_called(text, name) for text in item.names if text))
        if not found:
            raise UnknownName("No sample is named so.")
        return found


TRACE = cast(Trace, Batches(batch(0, [4, 2]), batch(1, [1, 4], ("cat.png", "dog.png"))))


def test_the_samples_of_a_step_come_with_those_before() -> None:
    found = data_of_step(TRACE, 1, before=1)

    assert [item.step for item in found.batches] == [0, 1]
    assert [item.step for item in found.named] == [1]
    assert [item["samples"] for item in found.to_json()] == [["4", "2"], ["1", "4"]]


def test_a_step_without_names_has_no_named_batches() -> None:
    assert data_of_step(TRACE, 0).named == []


def test_the_steps_that_saw_a_sample_say_in_which_rows() -> None:
    assert [(item["step"], item["rows"]) for item in seen_sample(TRACE, "4").to_json()] == [(0, [0]), (1, [1])]


@pytest.mark.parametrize(("wanted", "is_name"), [("cat.png", True), ("99", False)])
def test_a_name_that_was_taken_for_a_sample_is_recognized(wanted: str, is_name: bool) -> None:
    found = seen_sample(TRACE, wanted)

    assert (found.batches, found.is_name) == ((), is_name)


def test_samples_are_found_by_name() -> None:
    (item,) = seen_name(TRACE, "dog.png").batches

    assert (item.batch.step, item.rows) == (1, (1,))


def test_where_two_runs_part_is_json() -> None:
    data = parting_to_json(Parting(3, 3, (batch(3, [1]),), (batch(3, [2]),)))

    assert (data["step"], data["same_steps"], data["only"]) == (3, 3, "")
    assert [data[name][0]["samples"] for name in ("one", "other")] == [["1"], ["2"]]
