"""What a run answers when it is asked."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import barograph
from barograph.errors import (
    DamagedChunk,
    NotARun,
    SplitTensor,
    StoreDenied,
    StoreUnavailable,
    UnknownKey,
    UnknownName,
    UnknownStep,
    UnknownWorker,
)
from barograph.measures.summary import merge, summarize
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords, UnitSummaries
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.model.tensor import RawTensor
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.gaps import Gaps
from barograph.runs.reading.roster import Standing
from barograph.runs.state.survey import surveyed
from barograph.store.urls import store_from_url

MakeRecords = Callable[..., StepRecords]
WEIGHT, LOSS, RATE = Key(Kind.WEIGHT, "fc.weight"), Key(Kind.LOSS, "loss"), Key(Kind.LEARNING_RATE, "group0")


def test_a_run_opens_by_its_place(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    run = barograph.open(workshop.store.url)
    assert run.manifest.name == "example"
    assert [(state.worker.name, state.standing) for state in run.workers] == [("p0", Standing.FINISHED)]
    assert run.workers[0].last is not None
    assert run.workers[0].last.chunks == 1


@pytest.mark.parametrize("place", ["nothing", "elsewhere ü"])
def test_a_place_without_a_run_says_so(tmp_path: Path, place: str) -> None:
    (tmp_path / "elsewhere ü").mkdir()
    with pytest.raises(NotARun, match=place):
        barograph.open(tmp_path / place)


def test_keys_by_kind_path_and_pattern(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0, scalars={RATE: 0.1, Key(Kind.SCALAR, "val/loss"): 2.0}))
    run = workshop.run()
    assert [str(key) for key in run.keys(None)] == [
        "learning_rate:group0", "loss:loss", "scalar:val/loss", "weight:fc.weight"]
    assert run.keys("weight") == [WEIGHT]
    assert run.keys(path="*loss") == [LOSS, Key(Kind.SCALAR, "val/loss")]
    assert run.keys(Kind.SCALAR, pattern="^val") == [Key(Kind.SCALAR, "val/loss")]
    with pytest.raises(UnknownName, match="weight"):
        run.keys("weigth")
    with pytest.raises(UnknownName, match="regular expression"):
        run.keys(pattern="(")


def test_steps_by_mode_and_optimizer(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(
        make_records(0, 0, optimizer="d"), make_records(1, 0, optimizer="g"), make_records(2, 1, optimizer="d"),
        make_records(3, 2, mode=Mode.EVAL),
    )
    run = workshop.run()
    assert run.steps().tolist() == [0, 1]
    assert run.steps(optimizer="g").tolist() == [0]
    assert run.steps("eval").tolist() == [2]
    assert run.steps(None).tolist() == [0, 1, 2]
    with pytest.raises(UnknownName, match="eval"):
        run.steps("evel")


def test_a_series_of_a_loss(workshop: Any, make_records: MakeRecords) -> None:
    losses = [0.5, math.nan, math.inf, -math.inf, 0.25]
    workshop.finished(*(make_records(tick, loss=loss) for tick, loss in enumerate(losses)))
    series = workshop.run().series("loss:loss")
    assert series.steps.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(series.values, losses)
    assert series.times.tolist() == [1_800_000_000.0 + tick for tick in range(5)]
    assert len(series) == 5


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        ("count", 4), ("nan", 1), ("posinf", 0), ("neginf", 0), ("nonfinite", 1), ("finite", 3), ("zeros", 1),
        ("min", -4), ("max", 3), ("max_abs", 4), ("sum", -1), ("sum_sq", 25), ("sum_abs", 7), ("l1", 7), ("l2", 5),
        ("mean", -1 / 3), ("mean_abs", 7 / 3), ("rms", (25 / 3) ** 0.5), ("variance", 25 / 3 - 1 / 9),
        ("std", (25 / 3 - 1 / 9) ** 0.5), ("sparsity", 0.25),
    ],
)
def test_every_statistic_is_what_it_is_called(
    workshop: Any, make_records: MakeRecords, statistic: str, expected: float
) -> None:
    workshop.finished(make_records(0, weight=[3.0, -4.0, 0.0, math.nan]))
    assert workshop.run().series(WEIGHT, statistic).values[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("statistic", ["mean", "mean_abs", "std", "rms", "max_abs", "sparsity", "l2"])
def test_statistics_agree_with_the_summary(workshop: Any, make_records: MakeRecords, statistic: str) -> None:
    weights = [[1.0, 2.0, -3.0], [math.nan, math.inf], [0.0, 0.0], [1e30, -1e-30]]
    workshop.finished(*(make_records(tick, weight=weight) for tick, weight in enumerate(weights)))
    expected = [getattr(summarize(np.array(weight, np.float32)), statistic) for weight in weights]
    np.testing.assert_allclose(workshop.run().series(WEIGHT, statistic).values, expected, rtol=1e-15)


def test_a_series_between_steps(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick) for tick in range(6)))
    run = workshop.run()
    assert run.series(LOSS, start=2, stop=4).steps.tolist() == [2, 3]
    assert run.series(LOSS, start=4).steps.tolist() == [4, 5]
    assert len(run.series(LOSS, start=100)) == 0
    assert len(run.series(LOSS, mode="predict")) == 0


def test_what_the_run_does_not_hold_is_named(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    run = workshop.run()
    with pytest.raises(UnknownKey, match='Did you mean "loss:loss"'):
        run.series("loss:los")
    with pytest.raises(UnknownName, match="mean_abs"):
        run.series(WEIGHT, "mean_aps")
    with pytest.raises(UnknownName, match="has no value"):
        run.series(WEIGHT)
    with pytest.raises(UnknownWorker, match="p0"):
        run.series(LOSS, worker="p1")
    with pytest.raises(UnknownStep, match="step 7"):
        run.summary(WEIGHT, 7)
    with pytest.raises(UnknownKey):
        run.summary("weight:other", 0)
    with pytest.raises(UnknownStep, match="Recorded steps: 0 to 0"):
        run.at(3)
    with pytest.raises(UnknownStep, match="saved whole"):
        run.tensor(WEIGHT, 0)


def test_what_cannot_be_asked_is_said_in_a_sentence(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0, 0, optimizer="gen"), make_records(1, 0, optimizer="disc"))
    run = workshop.run()
    for ask in (
        lambda: run.series(LOSS, optimizer="gem"), lambda: run.steps(optimizer="gem"),
        lambda: run.at(0, optimizer="gem"), lambda: run.summary(WEIGHT, 0, optimizer="gem"),
        lambda: run.tensor(WEIGHT, 0, optimizer="gem"), lambda: run.arrow(optimizer="gem"),
    ):
        with pytest.raises(UnknownName, match=r'No optimizer "gem" made a step\. Did you mean "gen"'):
            ask()
    assert len(run.series(LOSS, optimizer="gen", start=5)) == 0
    for ask in (lambda: run.series(LOSS, mode=3), lambda: run.steps(3), lambda: run.at(0, mode=3)):
        with pytest.raises(UnknownName, match='"3" is not a mode'):
            ask()
    with pytest.raises(UnknownName, match="3 is not a valid key"):
        run.series(3)
    with pytest.raises(UnknownStep, match="step 5 in any mode"):
        run.at(5, mode=None)
    assert run.at(0, mode=None, optimizer="disc").step.optimizer == "disc"
    assert run.arrow("loss", columns="step").to_pydict() == {"step": [0, 0]}
    with pytest.raises(UnknownName, match="is not a column"):
        run.arrow(columns=[3])


def test_an_optimizer_of_a_run_that_has_but_one_is_left_out(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    with pytest.raises(UnknownName, match="omit the argument"):
        workshop.run().steps(optimizer="adam")


def test_a_summary_comes_back_with_its_histogram(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0), make_records(1, weight=[0.5, math.nan, -8.0]))
    assert workshop.run().summary(WEIGHT, 1) == summarize(np.array([0.5, math.nan, -8.0], np.float32))


def test_per_unit_summaries_come_back(workshop: Any, make_records: MakeRecords) -> None:
    units = UnitSummaries(4, np.ones((2, 7)), bound=3.0)
    workshop.finished(make_records(0, units={0: units}), make_records(1))
    read = workshop.run().units(WEIGHT, 0)
    assert (read.count, read.bound, read.columns.shape) == (4, 3.0, (2, 7))
    with pytest.raises(UnknownStep, match="by unit"):
        workshop.run().units(WEIGHT, 1)


def test_a_step_can_be_looked_at_whole(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0, scalars={RATE: 0.1}), make_records(1, scalars={RATE: 0.2}))
    view = workshop.run().at(1)
    assert (view.step.number, view.scalar(RATE), view.workers) == (1, 0.2, ("p0",))
    assert view.summary(WEIGHT) == summarize(np.array([1.0, -2.0], np.float32))


def test_of_two_evaluations_of_one_step_the_last_is_shown(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0, 5, mode=Mode.EVAL, loss=1.0), make_records(1, 5, mode=Mode.EVAL, loss=2.0))
    assert workshop.run().at(5, mode="eval").scalar(LOSS) == 2.0
    assert workshop.run().series(LOSS, mode="eval").values.tolist() == [1.0, 2.0]


def test_a_whole_tensor_comes_back(workshop: Any, make_records: MakeRecords) -> None:
    custom = Key(Kind.CUSTOM, "attention map")
    halves = np.array([[1.5, -2.0], [np.inf, 0.0]], ml_dtypes.bfloat16)
    tensors = {custom: RawTensor("bfloat16", (2, 2), halves.tobytes()), WEIGHT: RawTensor("float32", (), b"\0\0\x80?")}
    workshop.finished(make_records(0, tensors=tensors), make_records(1))
    run = workshop.run()
    read = run.tensor(custom, 0)
    assert read.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(read, halves)
    assert run.tensor("weight:fc.weight", 0) == np.float32(1.0)
    assert run.at(0).tensors() == {custom: ("p0",), WEIGHT: ("p0",)}
    assert run.summary(WEIGHT, 0).count == 2
    with pytest.raises(UnknownStep):
        run.tensor(WEIGHT, 1)


def test_all_tensors_of_a_key_come_by_step(workshop: Any, make_records: MakeRecords) -> None:
    def saved(value: float) -> dict[Key, RawTensor]:
        return {WEIGHT: RawTensor("float32", (), np.float32(value).tobytes())}

    workshop.finished(make_records(0, tensors=saved(1.0)), make_records(1), make_records(2, tensors=saved(3.0)),
                      make_records(3, 2, mode=Mode.EVAL, tensors=saved(4.0)))
    run = workshop.run()

    assert {step: float(array) for step, array in run.tensors(WEIGHT).items()} == {0: 1.0, 2: 3.0}
    assert list(run.tensors(WEIGHT, mode="eval")) == [2]
    assert list(run.tensors(WEIGHT, steps={2})) == [2]
    assert run.tensors("weight:other") == {}


def test_a_tensor_whose_file_is_gone_is_named(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0, tensors={WEIGHT: RawTensor("float32", (1,), bytes(4))}))
    (name,) = workshop.names("tensors")
    workshop.store.inner.put(name, bytes(workshop.store.get(name))[:-1])
    with pytest.raises(DamagedChunk, match="tensors/p0"):
        workshop.run().tensor(WEIGHT, 0)
    workshop.store.inner.delete(name)
    with pytest.raises(DamagedChunk, match="chunk 0 of p0"):
        workshop.run().tensor(WEIGHT, 0)


@pytest.mark.parametrize("seen", [True, False])
def test_a_part_of_a_split_tensor_is_not_given_for_the_whole(
    workshop: Any, make_records: MakeRecords, seen: bool
) -> None:
    workshop.claim()
    for rank in range(2):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2))
        part = np.array([1.0 + rank, 2.0], np.float32)
        records = make_records(0, weight=part if seen else [], tensors={
            WEIGHT: RawTensor("float32", (2,), part.tobytes())})
        subjects = (replace(records.subjects[0], shard=True, whole=4), records.subjects[1])
        workshop.publish(writer, replace(records, subjects=subjects))
    run = workshop.run()
    with pytest.raises(SplitTensor, match=r'worker="r0"\. Workers: r0, r1'):
        run.tensor(WEIGHT, 0)
    assert run.tensor(WEIGHT, 0, worker="r1").tolist() == [2.0, 2.0]


def test_a_part_that_holds_every_element_is_the_tensor(workshop: Any, make_records: MakeRecords) -> None:
    records = make_records(0, tensors={WEIGHT: RawTensor("float32", (2,), np.ones(2, np.float32).tobytes())})
    subjects = (replace(records.subjects[0], shard=True, whole=2), records.subjects[1])
    workshop.finished(replace(records, subjects=subjects))
    assert workshop.run().tensor(WEIGHT, 0).tolist() == [1.0, 1.0]


def test_a_tensor_of_another_run_is_damage(workshop: Any, make_records: MakeRecords, make_workshop: Any) -> None:
    tensors = {WEIGHT: RawTensor("float32", (1,), bytes(4))}
    workshop.finished(make_records(0, tensors=tensors))
    other = make_workshop(store_from_url("memory://another run's tensors"), run_id="20260202T000000Z-def")
    other.finished(make_records(0, tensors=tensors))
    (mine,), (theirs,) = workshop.names("tensors"), other.names("tensors")
    workshop.store.put(theirs, bytes(other.store.get(theirs)))
    assert workshop.run().tensor(WEIGHT, 0).tolist() == [0.0]
    assert theirs in examine(workshop.store).damaged[0]
    workshop.store.delete(mine)
    with pytest.raises(DamagedChunk, match="to another run"):
        workshop.run().tensor(WEIGHT, 0)


def two_ranks(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    for rank, (loss, weight) in enumerate([(1.0, [1.0, 2.0]), (3.0, [5.0])]):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2))
        workshop.publish(writer, *(make_records(tick, loss=loss + tick, weight=weight) for tick in range(3)))
        writer.close(EndState.FINISHED)


def test_losses_merge_over_ranks_and_replicas_are_the_firsts(workshop: Any, make_records: MakeRecords) -> None:
    two_ranks(workshop, make_records)
    run = workshop.run()
    assert run.series(LOSS).values.tolist() == [2.0, 3.0, 4.0]
    assert run.series(LOSS, worker="r1").values.tolist() == [3.0, 4.0, 5.0]
    assert run.series(LOSS, "count").values.tolist() == [2, 2, 2]
    assert run.series(WEIGHT, "max").values.tolist() == [2.0, 2.0, 2.0]
    assert run.series(WEIGHT, "max", worker="r1").values.tolist() == [5.0, 5.0, 5.0]
    assert run.at(1).workers == ("r0", "r1")


def test_a_merged_series_is_in_the_order_of_steps_whatever_the_clocks_say(
    workshop: Any, make_records: MakeRecords
) -> None:
    workshop.claim()
    clocks = [{0: 50.0, 2: 10.0, 3: 40.0, 5: 30.0}, {1: 4000.0, 2: 5.0, 3: 5000.0, 4: 3.0, 5: 3000.0}]
    for rank, clock in enumerate(clocks):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2))
        for number, time_unix in clock.items():
            records = make_records(number, loss=float(number))
            workshop.publish(writer, replace(records, step=replace(records.step, time_unix=time_unix)))
    series = workshop.run().series(LOSS)
    assert series.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert series.values.tolist() == [0, 1, 2, 3, 4, 5]
    assert series.times.tolist() == [50.0, 4000.0, 10.0, 40.0, 3.0, 30.0]


def test_a_merged_series_of_all_modes_is_in_the_order_of_the_first_rank(
    workshop: Any, make_records: MakeRecords
) -> None:
    workshop.claim()
    for rank in range(2):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2))
        steps = [make_records(0, 0), make_records(1, 1, mode=Mode.EVAL), make_records(2, 1), make_records(3, 2)]
        if rank:
            steps = [*steps[:3], make_records(3, 2, mode=Mode.PREDICT, loss=7.0), make_records(4, 2)]
        workshop.publish(writer, *steps)
    series = workshop.run().series(LOSS, mode=None)
    assert series.steps.tolist() == [0, 1, 1, 2, 2]
    assert series.values.tolist() == [0.5, 0.5, 0.5, 0.5, 7.0]


def test_shards_merge_over_ranks(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    parts = ([1.0, 2.0], [-5.0])
    for rank, weight in enumerate(parts):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2))
        records = make_records(0, weight=weight)
        subjects = (replace(records.subjects[0], shard=True), records.subjects[1])
        workshop.publish(writer, replace(records, subjects=subjects))
    run = workshop.run()
    assert run.series(WEIGHT, "min").values.tolist() == [-5.0]
    assert run.series(WEIGHT, "sum_sq").values.tolist() == [30.0]
    both: Summary = merge(*(summarize(np.array(part, np.float32)) for part in parts))
    assert run.summary(WEIGHT, 0) == both


def test_a_split_tensor_of_which_a_part_is_missing_has_no_figure(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    for rank, steps in enumerate(([0, 1, 2], [0, 2])):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2))
        for step in steps:
            records = make_records(step, weight=[1.0 + rank, 2.0])
            subjects = (replace(records.subjects[0], shard=True, whole=4), records.subjects[1])
            workshop.publish(writer, replace(records, subjects=subjects))
    run = workshop.run()
    assert run.series(WEIGHT, "sum").steps.tolist() == [0, 2]
    assert run.series(WEIGHT, "sum").values.tolist() == [7.0, 7.0]
    views = {view.step.number: view for view in run.views()}
    assert views[1].summary(WEIGHT) is None
    assert views[2].summary(WEIGHT).sum == 7.0  # type: ignore[union-attr]


def test_without_ranks_the_first_process_that_has_it_speaks(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    first, second = workshop.writer(workshop.worker()), workshop.writer(workshop.worker())
    workshop.publish(second, make_records(0, loss=2.0, scalars={RATE: 0.5}))
    workshop.publish(first, make_records(0, loss=1.0))
    run = workshop.run()
    assert run.series(LOSS).values.tolist() == [1.0]
    assert run.series(RATE).values.tolist() == [0.5]


def resumed(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(6):
        workshop.publish(writer, make_records(tick, loss=float(tick)))
    workshop.publish(writer, make_records(6, 4, mode=Mode.EVAL, loss=0.4), make_records(7, 5, mode=Mode.EVAL, loss=0.5))
    writer.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    for tick in range(3):
        workshop.publish(second, make_records(tick, tick + 4, loss=float(tick + 104)))
    second.close(EndState.FINISHED)


def test_a_later_attempt_supersedes_from_its_first_step_on(workshop: Any, make_records: MakeRecords) -> None:
    resumed(workshop, make_records)
    run = workshop.run()
    series = run.series(LOSS)
    assert series.steps.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert series.values.tolist() == [0, 1, 2, 3, 104, 105, 106]
    assert run.steps().tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert run.series(LOSS, mode="eval").values.tolist() == [0.4]  # made before step 4 was made again
    assert run.at(4).scalar(LOSS) == 104
    assert (run.at(3).attempt, run.at(4).attempt) == (0, 1)
    assert sorted(run.arrow("loss")["value"].to_pylist()) == [0, 0.4, 1, 2, 3, 104, 105, 106]
    assert [state.standing for state in run.workers] == [Standing.FAILED, Standing.FINISHED]


def test_each_optimizer_is_superseded_by_its_own_steps(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, *(make_records(tick, tick, optimizer="d", loss=1.0) for tick in range(10)))
    workshop.publish(writer, *(make_records(10 + tick, tick, optimizer="g", loss=1.0) for tick in range(3)))
    writer.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    workshop.publish(second, make_records(0, 8, optimizer="d", loss=2.0), make_records(1, 2, optimizer="g", loss=2.0))
    run = workshop.run()
    assert run.series(LOSS, optimizer="d").values.tolist() == [1.0] * 8 + [2.0]
    assert run.series(LOSS, optimizer="g").values.tolist() == [1.0, 1.0, 2.0]


def damage(workshop: Any, words: str) -> None:
    for name in workshop.names("records"):
        if words in name:
            workshop.store.inner.put(name, b"damaged")


@pytest.mark.parametrize("ended", [True, False])
def test_a_later_attempt_supersedes_though_its_first_chunk_is_lost(
    workshop: Any, make_records: MakeRecords, ended: bool
) -> None:
    first = workshop.writer()
    workshop.publish(first, *(make_records(tick, loss=float(tick)) for tick in range(8)))
    first.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    for tick in range(4):
        workshop.publish(second, make_records(tick, tick + 4, loss=100.0 + tick))
    if ended:
        second.close(EndState.FINISHED)
        assert len(workshop.names("records/p0")) == 2
    damage(workshop, "/0001-00000000")
    run = workshop.run()
    assert run.series(LOSS).values.tolist() == [0, 1, 2, 3, *([] if ended else [101, 102, 103])]
    assert len(run.damage) == 1


def test_where_nothing_tells_where_an_attempt_began_earlier_ones_are_left_out(
    workshop: Any, make_records: MakeRecords
) -> None:
    first = workshop.writer()
    workshop.publish(first, *(make_records(tick, loss=float(tick)) for tick in range(8)))
    first.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    workshop.publish(second, make_records(0, 4, loss=100.0))
    damage(workshop, "/0001-00000000")
    run = workshop.run()
    assert len(run.series(LOSS)) == 0
    assert "The first step of attempt 1 is unknown" in run.damage[1]


def test_a_rank_tells_where_an_attempt_began_for_one_that_cannot(workshop: Any, make_records: MakeRecords) -> None:
    for attempt, numbers in enumerate((range(8), range(4, 6))):
        assert workshop.claim() == attempt
        for rank in range(2):
            worker = workshop.worker(rank=rank, world_size=2, attempt=attempt)
            workshop.publish(workshop.writer(worker), *(
                make_records(tick, number, loss=10.0 * attempt) for tick, number in enumerate(numbers)))
            workshop.kill(worker)
    damage(workshop, "r1/0001-00000000")
    run = workshop.run()
    assert run.series(LOSS).values.tolist() == [0, 0, 0, 0, 10, 10]
    assert len(run.damage) == 1


def test_missing_chunks_are_damage(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(6):
        workshop.publish(writer, make_records(tick))
    run = workshop.run()
    assert run.damage == ()
    for name in [workshop.names("records")[index] for index in (0, 2, 3)]:
        workshop.store.inner.delete(name)
    run.refresh()
    assert run.steps().tolist() == [1, 4, 5]
    assert run.damage == ("Chunk 0 of worker p0 in attempt 0 cannot be read.",
                          "Chunks 2 to 3 of worker p0 in attempt 0 cannot be read.")
    assert len(list(run.views())) == 3
    assert len(run.damage) == 2


def test_missing_last_chunks_are_known_from_the_ending(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    workshop.store.inner.delete(workshop.names("records")[0])
    assert workshop.run().damage == ("Chunk 0 of worker p0 in attempt 0 cannot be read.",)


def test_chunks_that_were_removed_as_asked_are_not_missing(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick) for tick in range(9)), keep_last=2)
    run = workshop.run()
    assert run.steps()[0] > 0
    assert run.damage == ()
    (note,) = workshop.names("retention")
    workshop.store.inner.put(note, b"{}")
    assert [note in text for text in workshop.run().damage] == [False, True]


def test_a_chunk_that_one_listing_missed_is_no_damage(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(31):
        workshop.publish(writer, make_records(tick))
    run = workshop.run()
    workshop.publish(writer, make_records(31))
    workshop.publish(writer)
    writer.close(EndState.FINISHED)
    stale = surveyed([item for item in workshop.store.list() if not item.name.startswith("records")])
    assert Gaps(workshop.store).named(stale) == []
    assert run.damage == ()


def test_what_a_feed_or_a_finding_could_not_read_is_damage(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.finished(make_records(0))
    workshop.store.put("findings/G101-0-0123456789ab.opened.json", b"{}")
    run = workshop.run()
    assert run.findings == ()
    assert ["findings/G101" in text for text in run.damage] == [True]
    damage(workshop, "/0000-")
    followed = workshop.run()
    assert list(followed.follow(wait=workshop.clock.advance)) == []
    assert "records/p0" in followed.damage[0]
    assert writer.chunks == 1


def test_tables_for_arrow_pandas_and_polars(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick) for tick in range(3)))
    run = workshop.run()
    table = run.arrow("loss", start=1, columns=["step", "value"])
    assert table.to_pydict() == {"step": [1, 2], "value": [0.5, 0.5]}
    assert run.pandas(path="fc.*")["path"].tolist() == ["fc.weight"] * 3
    assert run.polars("weight").height == 3
    assert run.arrow().num_rows == 6
    with pytest.raises(UnknownName, match="value"):
        run.arrow(columns=["valeu"])


def test_a_run_that_goes_on_is_seen_anew_when_refreshed(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    run = workshop.run()
    workshop.publish(writer, make_records(1))
    assert run.steps().tolist() == [0]
    run.refresh()
    assert run.steps().tolist() == [0, 1]


def test_a_store_that_went_away_is_not_asked_for_every_file(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(30):
        workshop.publish(writer, make_records(tick))
    run = workshop.run()
    told = threading.Event()

    def away(verb: str, name: str) -> None:
        if len(asked) > 1:
            told.wait(1)  # a request takes long to fail
        raise StoreUnavailable("away")

    workshop.store.calls.clear()
    asked = workshop.store.calls
    workshop.store.before = away
    with pytest.raises(StoreUnavailable):
        run.series("loss:loss")
    told.set()
    assert len(asked) <= 8


def test_following_a_run_ends_with_it(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    rest = [lambda: workshop.publish(writer, make_records(1)), lambda: writer.close(EndState.FINISHED)]
    seen = [view.step.number for view in workshop.run().follow(wait=lambda secs: rest.pop(0)())]
    assert (seen, rest) == ([0, 1], [])


def test_all_steps_of_a_run_as_views(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick) for tick in range(3)))
    assert [view.step.number for view in workshop.run().views()] == [0, 1, 2]


def test_a_run_is_followed_across_an_outage_of_its_store(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    steps = workshop.run().follow(wait=lambda secs: rest.pop(0)())

    def away(step: int) -> None:
        workshop.publish(writer, make_records(step))
        workshop.store.error = StoreUnavailable("away")
        workshop.clock.advance(200)

    def back() -> None:
        workshop.store.error = None

    rest = [lambda: away(1), lambda: workshop.clock.advance(50), back, lambda: away(2), back,
            lambda: writer.close(EndState.FINISHED)]
    assert [view.step.number for view in steps] == [0, 1, 2]


def test_a_store_that_stays_away_ends_the_following(workshop: Any, make_records: MakeRecords) -> None:
    workshop.publish(workshop.writer(), make_records(0))
    steps = workshop.run().follow(away_secs=5.0, wait=workshop.clock.advance)
    assert next(steps).step.number == 0
    workshop.store.error = StoreUnavailable("away")
    before = workshop.clock.monotonic()
    with pytest.raises(StoreUnavailable):
        next(steps)
    assert workshop.clock.monotonic() - before == 5.0


def test_a_store_that_refuses_ends_the_following_at_once(workshop: Any, make_records: MakeRecords) -> None:
    workshop.publish(workshop.writer(), make_records(0))
    waited: list[float] = []
    steps = workshop.run().follow(wait=waited.append)
    next(steps)
    workshop.store.error = StoreDenied("no")
    with pytest.raises(StoreDenied):
        next(steps)
    assert waited == [0.5]  # for what comes after the first step


def test_how_a_worker_stands(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    _, killed, far = (workshop.worker() for _ in range(3))
    workshop.kill(killed)
    workshop.move_away(far)
    run = workshop.run()
    assert [state.standing for state in run.workers] == [Standing.RUNNING, Standing.KILLED, Standing.UNKNOWN]
    workshop.writer(far).turn()
    assert run.workers[2].standing == Standing.RUNNING


def test_a_reader_finds_the_rows_while_files_are_made_one(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(31):
        workshop.publish(writer, make_records(tick))
    run = workshop.run()
    workshop.publish(writer, make_records(31))
    workshop.publish(writer)
    assert len(workshop.names("records")) == 1
    assert run.series(LOSS).steps.tolist() == list(range(32))


def test_opening_a_run_loads_no_framework(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    code = ("import sys, barograph; barograph.open(sys.argv[1]).series('loss:loss'); "
            "sys.exit('torch' in sys.modules or 'rich' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code, workshop.store.url], check=False, timeout=600).returncode == 0


def test_what_a_later_attempt_logs_or_evaluates_before_its_first_step_hides_nothing(
    workshop: Any, make_records: MakeRecords
) -> None:
    first = workshop.writer()
    workshop.publish(first, *(make_records(tick, loss=float(tick)) for tick in range(6)))
    first.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    second.log("startup_secs", 1.0, 0, Mode.TRAIN, 0.0)
    workshop.publish(second, make_records(0, 0, mode=Mode.EVAL, loss=0.5))
    run = workshop.run()
    assert run.series(LOSS).values.tolist() == [0, 1, 2, 3, 4, 5]
    workshop.publish(second, *(make_records(tick, tick + 4, loss=100.0 + tick) for tick in range(1, 3)))
    run.refresh()
    assert run.series(LOSS).values.tolist() == [0, 1, 2, 3, 4, 101, 102]
    assert run.series("scalar:startup_secs").values.tolist() == [1.0]


def test_what_an_earlier_attempt_logged_and_evaluated_is_superseded_with_its_steps(
    workshop: Any, make_records: MakeRecords
) -> None:
    first = workshop.writer()
    for tick in range(4):
        first.log("accuracy", tick / 4, 3 * tick, Mode.TRAIN, 0.0)
        workshop.publish(first, make_records(3 * tick, 3 * tick, optimizer="d", loss=1.0),
                         make_records(3 * tick + 1, tick, optimizer="g", loss=1.0),
                         make_records(3 * tick + 2, 3 * tick, mode=Mode.EVAL, loss=float(tick)))
    first.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    workshop.publish(second, make_records(0, 6, optimizer="d", loss=2.0), make_records(1, 2, optimizer="g", loss=2.0))
    run = workshop.run()
    assert run.series("scalar:accuracy").steps.tolist() == [0, 3]
    assert run.series(LOSS, mode="eval").values.tolist() == [0.0, 1.0, 2.0]
    assert run.series(LOSS, optimizer="g").values.tolist() == [1.0, 1.0, 2.0]


def test_an_attempt_that_comes_while_files_are_made_one_gives_no_step_twice(
    workshop: Any, make_records: MakeRecords
) -> None:
    first = workshop.writer()
    workshop.publish(first, *(make_records(tick, loss=0.0) for tick in range(4)))
    first.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    for tick in range(4):
        workshop.publish(second, make_records(tick, tick + 2, loss=1.0))
    run = workshop.run()
    assert run.series(LOSS).values.tolist() == [0, 0, 1, 1, 1, 1]
    second.close(EndState.FAILED)
    third = workshop.writer(workshop.worker(attempt=workshop.claim()))
    workshop.publish(third, *(make_records(tick, tick + 4, loss=2.0) for tick in range(4)))
    assert len(workshop.names("records")) == 3
    for _ in range(2):
        assert run.series(LOSS).steps.tolist() == list(range(8))
        assert run.series(LOSS).values.tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
