"""The keys of a run: what was recorded, and what is said where nothing was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barograph.errors import UnknownKey, UnknownName
from barograph.queries.keys import keys_of
from barograph.runs.reading.reader import RunReader

Training = Any  # of watched.py


@pytest.fixture
def run(training: Training) -> RunReader:
    """A run of two steps, each with a loss and a weight."""
    training.steps(2.0, 3.0)
    training.end()
    return RunReader(training.store)


def test_each_key_has_its_last_value_and_its_steps(run: RunReader) -> None:
    found = {str(row.key): row for row in keys_of(run)}

    loss, weight = found["loss:total"], found["weight:fc.weight"]
    assert (loss.steps, loss.first_step, loss.last_step, loss.value, loss.summary) == (2, 0, 1, 3.0, None)
    assert (weight.layer, weight.dtype, weight.value) == ("Linear", "float32", None)
    assert weight.summary is not None
    assert weight.summary.count == 2


def test_keys_are_chosen_by_kind_and_path(run: RunReader) -> None:
    assert [str(row.key) for row in keys_of(run, "weight")] == ["weight:fc.weight"]
    assert [str(row.key) for row in keys_of(run, path="tot*")] == ["loss:total"]


def test_json_is_strict(run: RunReader) -> None:
    data = [row.to_json() for row in keys_of(run)]

    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert {item["kind"] for item in data} == {"loss", "weight"}


@pytest.mark.parametrize(
    ("kind", "path", "error", "said"),
    [
        ("wait", "*", UnknownName, "weight"),
        ("gradient", "*", UnknownKey, "Nothing of kind gradient was recorded"),
        (None, "fc.wait", UnknownKey, 'Did you mean "?fc.weight'),
    ],
)
def test_what_is_not_there_is_said(
    run: RunReader, kind: str | None, path: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        keys_of(run, kind, path)


def test_a_run_without_records_has_no_keys(training: Training) -> None:
    training.end()

    assert keys_of(RunReader(training.store)) == []
