"""Runs that released versions wrote are read for ever. See `tests/data/make_run.py`."""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import barograph
from barograph.measures.summary import merge, summarize
from barograph.model.key import Key, Kind
from barograph.model.manifest import FORMAT_VERSION
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.feed import Feed
from barograph.store.urls import store_from_url

DATA = Path(__file__).parents[1] / "data"
WEIGHT = Key(Kind.WEIGHT, "fc.weight")
FORMATS = range(1, FORMAT_VERSION + 1)


@pytest.mark.parametrize("version", FORMATS)
def test_every_number_is_what_was_recorded(version: int) -> None:
    run = barograph.open(DATA / f"run-format-{version}")
    assert [str(key) for key in run.keys(None)] == [
        "custom:map", "learning_rate:group0", "loss:loss", "output:relu", "scalar:accuracy", "weight:fc.weight"]
    assert run.steps().tolist() == [0, 1, 2, 3, 4, 5]
    assert run.steps("eval").tolist() == [1, 2, 3, 4, 5, 6]
    assert run.series("loss:loss").values.tolist() == [1 / (number + 1) for number in range(6)]
    assert run.series("scalar:accuracy").values.tolist() == [number / 4 for number in range(6)]
    assert run.series("weight:fc.weight", "nan", worker="r1").values.tolist() == [1] * 6
    assert run.summary("weight:fc.weight", 4) == summarize(np.array([4, -0.5, math.nan]))
    both = merge(*[summarize(np.array([0.0, 4.0]))] * 2)
    assert run.summary("output:relu", 4) == both
    assert run.units("output:relu", 4).columns[1].tolist() == [14, 16, 18, 10, 11, 24, 26]
    np.testing.assert_array_equal(run.tensor("custom:map", 2), np.array([1.5, -2.0], ml_dtypes.bfloat16))
    assert run.damage == ()


@pytest.mark.parametrize("version", FORMATS)
def test_it_replays_step_by_step(version: int) -> None:
    result = Feed(store_from_url(DATA / f"run-format-{version}")).poll()
    views = [view for view in result.views if view.summary(WEIGHT)]
    assert len(result.views) == len(views) + 14  # numbers that each worker logged after the evaluation
    steps = [(view.attempt, view.step.mode.value, view.step.number) for view in views]
    assert steps == [
        *((0, mode, number + (mode == "eval")) for number in range(4) for mode in ("train", "eval")),
        *((1, mode, number + (mode == "eval")) for number in range(3, 6) for mode in ("train", "eval")),
    ]
    assert [view.step.skipped for view in views][:4] == [False, True, True, False]
    assert all(view.workers == ("r0", "r1") for view in views)


@pytest.mark.parametrize("version", FORMATS)
def test_it_is_whole(version: int) -> None:
    diagnosis = examine(store_from_url(DATA / f"run-format-{version}"))
    assert diagnosis.intact
    assert (diagnosis.foreign, diagnosis.problems, diagnosis.workers) == ([], [], 4)
