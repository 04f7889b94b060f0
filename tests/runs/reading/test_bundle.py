"""Many series in one reading are those that one after the other would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from barograph.errors import UnknownName
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords, Subject
from barograph.model.step import Mode
from barograph.queries.curves import curves_of
from barograph.queries.numbers import numbers_of
from barograph.runs.reading.bundle import bundle, bundles, optimizers_of, series_names

MakeStep = Callable[..., StepRecords]

WEIGHT = Subject(Key(Kind.WEIGHT, "fc.weight"), "Linear", "float32")
OUTPUTS = [Subject(Key(Kind.OUTPUT, path), "Linear", "float32") for path in ("fc", "head")]
LOSS, OTHER = Key(Kind.LOSS, "total"), Key(Kind.LOSS, "aside")


@pytest.fixture
def run(workshop: Any, make_step: MakeStep) -> Any:
    """Two ranks, a process without rank beside them, and a resumed attempt."""
    attempt = workshop.claim()
    for name, rank in (("p", None), ("r1", 1), ("r0", 0)):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt))
        factor = len(name) + (rank or 0)
        workshop.publish(writer, *(
            make_step(step, {WEIGHT: [1.0 * factor], **{item: [2.0 * factor, step] for item in OUTPUTS}},
                      {LOSS: 3.0 * factor, **({OTHER: 1.0} if step == 1 else {})})
            for step in range(4)
        ), make_step(1, {}, {LOSS: 5.0}, tick=4, mode=Mode.EVAL))
        if name == "p":
            writer.close(EndState.FINISHED)
    for rank in (0, 1):
        workshop.kill(workshop_worker(workshop, rank))
    writer = workshop.writer(workshop.worker(rank=0, attempt=workshop.claim()))
    workshop.publish(writer, make_step(2, {WEIGHT: [99.0]}, {LOSS: 7.0}))
    writer.close(EndState.FINISHED)
    return workshop.run()


def workshop_worker(workshop: Any, rank: int) -> Any:
    return next(state.worker for state in workshop.run().workers if state.worker.name == f"r{rank}")


@pytest.mark.parametrize("kind", [Kind.WEIGHT, Kind.OUTPUT])
def test_tensors_as_one_after_the_other(run: Any, kind: Kind) -> None:
    found = {series[0].key: series for series in bundle(run, kind, ("l2", "count"))}

    assert set(found) == set(run.keys(kind))
    for key, several in found.items():
        for series in several:
            alone = run.series(key, series.statistic)
            assert series.steps.tolist() == alone.steps.tolist()
            np.testing.assert_array_equal(series.values, alone.values)


@pytest.mark.parametrize("mode", [Mode.TRAIN, Mode.EVAL])
def test_plain_numbers_as_one_after_the_other(run: Any, mode: Mode) -> None:
    found = {series.key: series for (series,) in bundle(run, Kind.LOSS, mode=mode)}

    assert set(found) == ({LOSS, OTHER} if mode is Mode.TRAIN else {LOSS})
    for key, series in found.items():
        alone = run.series(key, mode=mode)
        assert (series.steps.tolist(), series.values.tolist()) == (alone.steps.tolist(), alone.values.tolist())


def test_a_key_without_the_statistic_is_left_out(run: Any) -> None:
    assert list(bundle(run, Kind.WEIGHT, ("value",))) == []


def test_a_wrong_statistic_is_answered_with_the_nearest(run: Any) -> None:
    with pytest.raises(UnknownName, match="mean_abs"):
        list(bundle(run, Kind.WEIGHT, ("mean_asb",)))


def test_steps_of_two_optimizers_are_told_apart(workshop: Any, make_step: MakeStep) -> None:
    workshop.finished(
        make_step(0, {}, {LOSS: 1.0}, tick=0, optimizer="g"), make_step(0, {}, {LOSS: 2.0}, tick=1, optimizer="d"),
        make_step(1, {}, {OTHER: 3.0}, tick=2, optimizer="g"),
    )
    run = workshop.run()

    assert optimizers_of(run, Kind.LOSS) == ["d", "g"]
    assert optimizers_of(run, Kind.WEIGHT) == []
    assert [(str(series.key), series.values.tolist()) for (series,) in bundle(run, Kind.LOSS, optimizer="g")] == [
        ("loss:aside", [3.0]), ("loss:total", [1.0]),
    ]


def test_later_trainings_stand_in_the_order_in_which_they_came(workshop: Any, make_step: MakeStep) -> None:
    labels = ["", *(f"#{number}" for number in range(2, 13))]
    workshop.finished(*(make_step(0, {}, {LOSS: 1.0}, tick=tick, optimizer=name) for tick, name in enumerate(labels)))
    run = workshop.run()

    assert optimizers_of(run, Kind.LOSS) == labels
    assert [curve.optimizer for curve in curves_of(run, Kind.LOSS)] == labels
    assert [number.optimizer for number in numbers_of(run)] == labels


def test_ranks_replicas_and_lone_processes_speak_as_in_one_series(run: Any) -> None:
    """What is cut out of one table for all keys is what `RunReader.series` makes of each key's own."""
    for kind, statistics in ((Kind.LOSS, ("value",)), (Kind.WEIGHT, ("sum", "l2")), (Kind.OUTPUT, ("sum",))):
        for mode, optimizer, several in bundles(run, kind, statistics):
            for series in several:
                alone = run.series(series.key, series.statistic, mode=mode, optimizer=optimizer)
                for name in ("steps", "values", "times"):
                    np.testing.assert_array_equal(getattr(series, name), getattr(alone, name))


def test_only_the_keys_that_are_asked_for(run: Any) -> None:
    found = [series.key for _, _, (series,) in bundles(run, Kind.LOSS, only=[OTHER, OUTPUTS[0].key])]

    assert found == [OTHER]
    assert list(bundles(run, Kind.LOSS, only=[])) == []


def test_names_of_series_stand_in_the_order_of_their_curves(run: Any) -> None:
    names = series_names(run, Kind.LOSS)

    assert [(str(name.key), name.mode.value, name.optimizer) for name in names] == [
        ("loss:aside", "train", ""), ("loss:total", "train", ""), ("loss:total", "eval", ""),
    ]
    assert [(curve.key, curve.mode) for curve in curves_of(run, Kind.LOSS)] == [
        (str(name.key), name.mode.value) for name in names]
    assert series_names(run, Kind.SCALAR) == []
