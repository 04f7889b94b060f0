"""A view shows what the workers of a group recorded in one step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from barograph.measures.summary import merge, summarize
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.selection import Histogram
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.runs.reading.view import StepView, group_of, worker_order

WEIGHT, RELU, LOSS = Key(Kind.WEIGHT, "fc.weight"), Key(Kind.OUTPUT, "relu"), Key(Kind.LOSS, "loss")
RATE = Key(Kind.LEARNING_RATE, "group0")
ONE = summarize(np.array([1.0, -2.0, 0.0], np.float32))
TWO = summarize(np.array([4.0, np.nan], np.float32))


def test_one_worker_is_shown_as_it_is() -> None:
    view = StepView.of(3, {WEIGHT: ONE, RELU: TWO, RATE: 0.1}, layers={RELU: "ReLU"}, dtypes={WEIGHT: "float32"})
    assert view.step == Step(3, 3)
    assert (view.group, view.workers) == ("p0", ("p0",))
    assert view.summary(WEIGHT) == ONE
    assert view.scalar(RATE) == 0.1
    assert view.scalars(Kind.LEARNING_RATE) == {RATE: 0.1}
    subject = view.subject(RELU)
    assert subject is not None
    assert subject.layer == "ReLU"


def test_what_was_not_seen_is_none_or_empty() -> None:
    view = StepView.of(Step(0, 0, mode=Mode.EVAL), {WEIGHT: ONE})
    assert view.summary(RELU) is None
    assert view.scalar(RATE) is None
    assert view.units(WEIGHT) is None
    assert view.subject(RELU) is None
    columns = view.columns(Kind.GRADIENT)
    assert (columns.subjects, columns.moments.shape, columns.exponents) == ((), (0, 10), None)


def test_columns_hold_one_kind() -> None:
    columns = StepView.of(0, {RELU: TWO, WEIGHT: ONE}).columns(Kind.WEIGHT)
    assert [subject.key for subject in columns.subjects] == [WEIGHT]
    assert columns.moments[0].tolist() == [3, 0, 0, 0, 1, -2, 1, -1, 5, 3]
    assert columns.exponents is not None
    assert columns.exponents.sum() == 2


def test_columns_without_histograms_have_none() -> None:
    assert StepView.of(0, {WEIGHT: Summary(count=1)}).columns(Kind.WEIGHT).exponents is None


def test_summaries_can_be_limited_to_layers() -> None:
    tanh = Key(Kind.OUTPUT, "tanh")
    view = StepView.of(0, {RELU: ONE, tanh: TWO}, layers={RELU: "ReLU", tanh: "Tanh"})
    assert [subject.key for subject, _ in view.summaries(Kind.OUTPUT, ["Tanh"])] == [tanh]
    assert [summary for _, summary in view.summaries(Kind.OUTPUT)] == [ONE, TWO]


def test_activations_merge_over_workers() -> None:
    view = StepView.of(0, workers={"r0": {RELU: ONE}, "r1": {RELU: TWO}})
    assert view.group == "r"
    assert view.summary(RELU) == merge(ONE, TWO)


def test_replicas_are_shown_once_and_each() -> None:
    view = StepView.of(0, workers={"r1": {WEIGHT: TWO}, "r0": {WEIGHT: ONE}})
    assert view.summary(WEIGHT) == ONE
    assert view.by_worker(WEIGHT) == {"r0": ONE, "r1": TWO}


def test_shards_merge_over_workers() -> None:
    view = StepView.of(0, workers={"r0": {WEIGHT: ONE}, "r1": {WEIGHT: TWO}}, shards={WEIGHT})
    assert view.summary(WEIGHT) == merge(ONE, TWO)


def test_a_key_that_one_worker_alone_has_is_there() -> None:
    view = StepView.of(0, workers={"r0": {WEIGHT: ONE}, "r1": {RELU: TWO}})
    assert view.summary(RELU) == TWO
    assert set(view.by_worker(RELU)) == {"r1"}


def test_a_loss_is_the_mean_over_the_workers_elements() -> None:
    workers = {"r0": {LOSS: summarize(np.array([1.0, 2.0]))}, "r1": {LOSS: summarize(np.array([6.0]))}}
    view = StepView.of(0, workers=workers)
    assert view.scalar(LOSS) == 3.0
    assert view.worker_scalars(LOSS) == {"r0": 1.5, "r1": 6.0}


def test_a_loss_that_is_not_finite_on_one_worker_is_not_finite() -> None:
    workers = {"r0": {LOSS: summarize(np.array([1.0]))}, "r1": {LOSS: summarize(np.array([np.nan]))}}
    loss = StepView.of(0, workers=workers).scalar(LOSS)
    assert loss is not None
    assert math.isnan(loss)


def test_other_numbers_are_the_first_workers() -> None:
    view = StepView.of(0, workers={"r10": {RATE: 3.0}, "r2": {RATE: 2.0}})
    assert view.scalar(RATE) == 2.0
    assert view.worker_scalars(RATE) == {"r2": 2.0, "r10": 3.0}


@pytest.mark.parametrize("bound", [8.0, math.nan])
def test_units_merge_over_workers_element_by_element(bound: float) -> None:
    first = UnitSummaries(2, np.array([[1.0, 0, 0, -1, 5, 4, 10]]), bound)
    second = UnitSummaries(3, np.array([[2.0, 1, 0, -3, 2, 1, 20]]), bound)
    one = StepView.of(0, {RELU: ONE}, units={RELU: first})
    assert one.units(RELU) is first
    assert [subject.key for subject, _ in one.unit_summaries(Kind.OUTPUT)] == [RELU]
    rows = {"r0": one._rows["p0"], "r1": StepView.of(0, {RELU: TWO}, units={RELU: second})._rows["p0"]}
    merged = StepView(Step(0, 0), rows, group="r").units(RELU)
    assert merged is not None
    assert merged.count == 5
    assert merged.columns.tolist() == [[3, 1, 0, -3, 5, 5, 30]]


def test_a_histogram_that_not_every_worker_took_is_none_of_the_step() -> None:
    without = summarize(np.full(1000, 1e-9), histogram=Histogram.NONE)
    view = StepView.of(0, workers={"r0": {RELU: ONE, WEIGHT: ONE}, "r1": {RELU: without, WEIGHT: without}})
    summary = view.summary(RELU)
    assert summary is not None
    assert (summary.count, summary.exponents) == (1003, {})
    assert view.columns(Kind.OUTPUT).exponents is None
    assert view.summary(WEIGHT) == ONE


def test_a_worker_that_saw_only_zeros_and_nan_leaves_the_histogram_whole() -> None:
    nothing = summarize(np.array([0.0, np.nan, np.inf]), histogram=Histogram.EXACT)
    view = StepView.of(0, workers={"r0": {RELU: ONE}, "r1": {RELU: nothing}})
    assert view.summary(RELU) == merge(ONE, nothing)


@pytest.mark.parametrize("other", [
    None, UnitSummaries(3, np.ones((2, 7)), bound=8.0), UnitSummaries(3, np.ones((1, 7)), bound=9.0)])
def test_units_that_not_every_worker_took_alike_are_none_of_the_step(other: UnitSummaries | None) -> None:
    units = UnitSummaries(2, np.ones((1, 7)), bound=8.0)
    rows = {"r0": StepView.of(0, {RELU: ONE}, units={RELU: units})._rows["p0"],
            "r1": StepView.of(0, {RELU: TWO}, units={} if other is None else {RELU: other})._rows["p0"]}
    assert StepView(Step(0, 0), rows, group="r").units(RELU) is None
    assert StepView(Step(0, 0), dict(reversed(rows.items())), group="r").units(RELU) is None


@pytest.mark.parametrize(("worker", "group"), [("r0", "r"), ("r12", "r"), ("p0", "p0"), ("p3", "p3")])
def test_ranks_are_one_group_and_others_their_own(worker: str, group: str) -> None:
    assert group_of(worker) == group


def test_workers_sort_by_number() -> None:
    assert sorted(["r10", "r9", "p0", "r0"], key=worker_order) == ["p0", "r0", "r9", "r10"]
