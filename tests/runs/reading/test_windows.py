"""A long run in spans, and what is counted in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from barograph.errors import UnknownName
from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.step import Mode
from barograph.runs.reading.bundle import bundle, bundles
from barograph.runs.reading.counts import counts_of
from barograph.runs.reading.histograms import steps_with_histogram
from barograph.runs.reading.windows import windows_of

LOSS, WEIGHT = Key(Kind.LOSS, "loss"), Key(Kind.WEIGHT, "fc.weight")


def test_spans_hold_about_so_many_rows_and_every_step_once(workshop: Any, make_step: Any) -> None:
    workshop.finished(*[make_step(number, scalars={LOSS: 0.5}) for number in range(3, 28)])

    windows = windows_of(workshop.run(), Kind.LOSS, rows=10)

    assert list(windows) == [(3, 13), (13, 23), (23, 28)]
    assert (windows.low, windows.high) == (3, 27)


def test_a_step_is_never_cut(workshop: Any, make_step: Any) -> None:
    losses = {Key(Kind.LOSS, f"l{number}"): 0.5 for number in range(7)}
    workshop.finished(*[make_step(number, scalars=losses) for number in range(3)])

    assert list(windows_of(workshop.run(), Kind.LOSS, rows=2)) == [(0, 1), (1, 2), (2, 3)]


def test_of_a_kind_that_was_not_recorded_there_is_no_span(workshop: Any, make_step: Any) -> None:
    workshop.finished(make_step(0, scalars={LOSS: 0.5}))

    windows = windows_of(workshop.run(), Kind.TIME)

    assert list(windows) == []
    assert (windows.low, windows.high) == (0, -1)


def test_a_mode_alone_can_be_asked_for(workshop: Any, make_step: Any) -> None:
    workshop.finished(make_step(0, scalars={LOSS: 0.5}), make_step(4, scalars={LOSS: 0.5}, mode=Mode.EVAL))

    assert list(windows_of(workshop.run(), Kind.LOSS, mode=Mode.EVAL)) == [(4, 5)]


def test_series_of_all_modes_and_optimizers_are_those_of_each(workshop: Any, make_step: Any) -> None:
    workshop.finished(
        make_step(0, scalars={LOSS: 1.0}, optimizer="a"), make_step(0, scalars={LOSS: 2.0}, optimizer="b", tick=1),
        make_step(1, scalars={LOSS: 3.0}, optimizer="a", tick=2),
        make_step(2, scalars={LOSS: 4.0}, tick=3, mode=Mode.EVAL),
    )
    run = workshop.run()

    found = {(mode, optimizer): series for mode, optimizer, (series,) in bundles(run, Kind.LOSS)}

    assert {what: series.values.tolist() for what, series in found.items()} == {
        (Mode.TRAIN, "a"): [1.0, 3.0], (Mode.TRAIN, "b"): [2.0], (Mode.EVAL, ""): [4.0],
    }
    ((alone,),) = bundle(run, Kind.LOSS, optimizer="a")
    assert found[Mode.TRAIN, "a"].times.tolist() == alone.times.tolist()


def test_series_can_be_had_of_a_span(workshop: Any, make_step: Any) -> None:
    workshop.finished(*[make_step(number, {Subject(WEIGHT): [3.0, 4.0 * number]}) for number in range(5)])

    ((_, _, (norms, counts)),) = bundles(workshop.run(), Kind.WEIGHT, ("l2", "count"), start=1, stop=3)

    assert norms.steps.tolist() == [1, 2]
    assert norms.values[0] == 5.0
    assert counts.values.tolist() == [2.0, 2.0]
    with pytest.raises(UnknownName, match="is not a statistic"):
        next(bundles(workshop.run(), Kind.WEIGHT, ("norm",)))


def counted(run: Any, **more: Any) -> dict[str, list[tuple[int, float]]]:
    found = counts_of(run, Kind.LABEL, **{"mode": Mode.TRAIN, **more})
    return {item.key.path: list(zip(item.steps.tolist(), item.counts.tolist(), strict=True)) for item in found}


def labels(**counts: float) -> dict[Key, float]:
    return {Key(Kind.LABEL, path): count for path, count in counts.items()}


def test_ranks_are_added_up(workshop: Any, make_step: Any) -> None:
    attempt = workshop.claim()
    for rank in range(2):
        writer = workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt))
        workshop.publish(writer, make_step(0, scalars=labels(a=2, b=rank)), make_step(1, scalars=labels(a=10)))

    assert counted(workshop.run()) == {"a": [(0, 4.0), (1, 20.0)], "b": [(0, 1.0)]}


def test_independent_processes_are_not(workshop: Any, make_step: Any) -> None:
    attempt = workshop.claim()
    for _ in range(2):
        workshop.publish(workshop.writer(workshop.worker(attempt=attempt)), make_step(0, scalars=labels(a=2)))

    assert counted(workshop.run()) == {"a": [(0, 2.0)]}


def test_evaluations_of_one_step_are_added_up_and_other_steps_left_out(workshop: Any, make_step: Any) -> None:
    workshop.finished(*[make_step(step, scalars=labels(a=1), tick=tick, mode=Mode.EVAL)
                        for tick, step in enumerate([5, 5, 9])])
    run = workshop.run()

    assert counted(run, mode=Mode.EVAL) == {"a": [(5, 2.0), (9, 1.0)]}
    assert counted(run, mode=Mode.EVAL, start=6) == {"a": [(9, 1.0)]}
    assert counted(run) == {}


def test_steps_with_a_histogram_are_known(workshop: Any, make_records: Any, make_step: Any) -> None:
    workshop.finished(make_records(0), make_step(1, {Subject(WEIGHT): [1.0]}), make_records(2, weight=(0.0,)),
                      make_records(3))

    steps = steps_with_histogram(workshop.run(), WEIGHT)

    assert {0, 3} <= set(np.asarray(steps).tolist()) <= {0, 2, 3}
