"""What a run holds of each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barograph.errors import UnknownName
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords, Subject
from barograph.model.step import Mode
from barograph.runs.reading.inventory import Entry, inventory

MakeStep = Callable[..., StepRecords]

WEIGHT = Subject(Key(Kind.WEIGHT, "fc.weight"), "Linear", "float32")
BIAS = Subject(Key(Kind.WEIGHT, "fc.bias"), "Linear", "float32")
OUTPUT = Subject(Key(Kind.OUTPUT, "fc"), "Linear", "float32")
LOSS = Key(Kind.LOSS, "total")


def entries_of(workshop: Any, *arguments: Any) -> dict[tuple[str, str], Entry]:
    return {(str(entry.key), entry.mode.value): entry for entry in inventory(workshop.run(), *arguments)}


def test_a_key_is_told_with_its_steps_and_its_last_figures(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(
        make_step(3, {WEIGHT: [1.0, 2.0], BIAS: [5.0]}, {LOSS: 0.5}), make_step(4, {}, {LOSS: 0.25}),
        make_step(7, {WEIGHT: [3.0, 4.0]}),
    )

    entries = entries_of(workshop)

    assert set(entries) == {("weight:fc.weight", "train"), ("weight:fc.bias", "train"), ("loss:total", "train")}
    weight = entries["weight:fc.weight", "train"]
    assert (weight.layer, weight.dtype) == ("Linear", "float32")
    assert (weight.steps, weight.first_step, weight.last_step) == (2, 3, 7)
    assert weight.summary is not None
    assert (weight.summary.l2, weight.value) == (5.0, None)
    loss = entries["loss:total", "train"]
    assert (loss.steps, loss.first_step, loss.last_step, loss.value, loss.summary) == (2, 3, 4, 0.25, None)


def test_modes_are_told_apart(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(
        make_step(0, {}, {LOSS: 1.0}), make_step(1, {}, {LOSS: 2.0}, mode=Mode.EVAL),
        make_step(1, {}, {LOSS: 3.0}, tick=2),
    )

    entries = entries_of(workshop)

    assert {name: entry.value for name, entry in entries.items()} == {
        ("loss:total", "train"): 3.0, ("loss:total", "eval"): 2.0,
    }


def test_the_same_step_of_two_optimizers_counts_twice_and_the_last_in_time_stands(
    workshop: Any, make_step: MakeStep
) -> None:
    workshop.finished(
        make_step(9, {}, {LOSS: 1.0}, tick=0, optimizer="g"), make_step(9, {}, {LOSS: 2.0}, tick=1, optimizer="d"),
        make_step(3, {}, {LOSS: 4.0}, tick=2, optimizer="g"),
    )

    entry = entries_of(workshop)["loss:total", "train"]

    assert (entry.steps, entry.first_step, entry.last_step, entry.value) == (3, 3, 3, 4.0)


def test_of_ranks_activations_merge_and_replicas_are_shown_once(workshop: Any, make_step: MakeStep) -> None:
    attempt = workshop.claim()
    for rank in (1, 0):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt))
        workshop.publish(writer, make_step(0, {OUTPUT: [1.0 + rank], WEIGHT: [7.0 + rank]}, {LOSS: 1.0 + rank}))
        writer.close(EndState.FINISHED)

    entries = entries_of(workshop)

    output, weight = entries["output:fc", "train"].summary, entries["weight:fc.weight", "train"].summary
    assert output is not None
    assert (output.count, output.sum) == (2, 3.0)
    assert weight is not None
    assert (weight.count, weight.sum) == (1, 7.0)
    assert entries["loss:total", "train"].value == 1.5


def test_a_split_tensor_with_a_part_missing_has_no_figures(workshop: Any, make_step: MakeStep) -> None:
    part = Subject(WEIGHT.key, "Linear", "float32", shard=True, whole=4)
    workshop.finished(make_step(0, {part: [1.0, 2.0]}))

    entry = entries_of(workshop)["weight:fc.weight", "train"]

    assert (entry.steps, entry.summary, entry.value) == (1, None, None)


def test_of_a_split_tensor_the_last_step_is_one_that_all_ranks_recorded(workshop: Any, make_step: MakeStep) -> None:
    part = Subject(WEIGHT.key, "Linear", "float32", shard=True, whole=2)
    attempt = workshop.claim()
    for rank, steps in ((0, 5), (1, 3)):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt))
        workshop.publish(writer, *(make_step(step, {part: [float(step)]}) for step in range(steps)))

    entry = entries_of(workshop)["weight:fc.weight", "train"]

    assert (entry.steps, entry.last_step) == (5, 2)
    assert entry.summary is not None
    assert (entry.summary.count, entry.summary.sum) == (2, 4.0)


def test_processes_without_rank_are_told_by_whoever_recorded_it(workshop: Any, make_step: MakeStep) -> None:
    attempt = workshop.claim()
    first, second = (workshop.writer(workshop.worker(attempt=attempt)) for _ in range(2))
    workshop.publish(first, make_step(0, {WEIGHT: [1.0]}))
    workshop.publish(second, make_step(5, {BIAS: [2.0]}))
    for writer in (first, second):
        writer.close(EndState.FINISHED)

    entries = entries_of(workshop)

    assert {name[0]: entry.summary.sum for name, entry in entries.items() if entry.summary} == {
        "weight:fc.weight": 1.0, "weight:fc.bias": 2.0,
    }


def test_only_one_kind_and_paths_that_match(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(make_step(0, {WEIGHT: [1.0], BIAS: [2.0], OUTPUT: [3.0]}))

    assert set(entries_of(workshop, "weight", "*.bias")) == {("weight:fc.bias", "train")}
    assert set(entries_of(workshop, Kind.OUTPUT)) == {("output:fc", "train")}
    with pytest.raises(UnknownName, match="weight"):
        inventory(workshop.run(), "weigth")


def test_a_run_without_records_holds_nothing(workshop: Any) -> None:
    workshop.finished()

    assert inventory(workshop.run()) == []


@pytest.mark.parametrize("kind", [Kind.LOSS, Kind.LEARNING_RATE])
def test_plain_numbers_end_as_their_series_do(workshop: Any, make_step: MakeStep, kind: Kind) -> None:
    """Two ranks that differ, a process beside them, a key with another last step, evaluations, a resumed attempt."""
    usual, rare, late = (Key(kind, name) for name in ("usual", "rare", "late"))
    attempt = workshop.claim()
    writers = {name: workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt))
               for name, rank in (("p", None), ("r1", 1), ("r0", 0))}
    for number, writer in enumerate(writers.values()):
        workshop.publish(writer, *(
            make_step(step, {}, {usual: 10.0 * number + step, **({rare: 5.0 + number} if step == 1 else {})})
            for step in range(4)
        ), make_step(2, {}, {usual: 8.0 + number}, tick=4, mode=Mode.EVAL))
    writers["p"].close(EndState.FINISHED)
    for state in workshop.run().workers:
        if state.worker.name != "p0":
            workshop.kill(state.worker)
    resumed = workshop.writer(workshop.worker(rank=0, attempt=workshop.claim()))
    workshop.publish(resumed, make_step(2, {}, {usual: 70.0}), make_step(3, {}, {usual: 71.0, late: 1.0}))
    resumed.close(EndState.FINISHED)

    run = workshop.run()
    entries = inventory(run, kind)

    assert {(entry.key, entry.mode) for entry in entries} == {
        (usual, Mode.TRAIN), (usual, Mode.EVAL), (rare, Mode.TRAIN), (late, Mode.TRAIN)}
    for entry in entries:
        series = run.series(entry.key, mode=entry.mode)
        assert (entry.value, entry.last_step) == (series.values[-1], series.steps[-1])
        assert (entry.steps, entry.first_step) == (len(set(series.steps.tolist())), series.steps.min())
        assert (entry.summary, entry.saved, entry.layer, entry.position) == (None, False, "", -1)


def test_what_a_step_recorded_stands_before_what_the_script_logged_for_it(workshop: Any, make_step: MakeStep) -> None:
    writer = workshop.writer()
    for value in (0.25, 0.75):
        writer.log("rate", value, 3, Mode.TRAIN, 0.0)
    writer.log("rest", 7.0, 3, Mode.TRAIN, 0.0)
    writer.log("rest", 8.0, 3, Mode.TRAIN, 0.0)
    workshop.publish(writer, make_step(3, {}, {Key(Kind.SCALAR, "rate"): 0.5}))
    writer.log("rate", 0.1, 3, Mode.TRAIN, 0.0)
    writer.close(EndState.FINISHED)

    entries = entries_of(workshop)

    assert {name[0]: (entry.steps, entry.value) for name, entry in entries.items()} == {
        "scalar:rate": (1, 0.5), "scalar:rest": (1, 8.0),
    }
