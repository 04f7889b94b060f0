"""The use of the machine as records: beside the steps, never one of them, and never in their way."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from barograph.model.clock import SystemClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.runs.format.pending import POINT, Points, Series
from barograph.runs.writing.inbox import Inbox
from barograph.runs.writing.sampling import sampler_for
from barograph.runs.writing.writer import RunWriter

MakeRecords = Callable[..., StepRecords]
CPU = Key(Kind.MACHINE, "cpu")


class Sampler:
    """Tells what a test hands it, once at each turn."""

    def __init__(self, *figures: Mapping[str, float] | Exception) -> None:
        self.figures = list(figures)
        self.problem = ""
        self.closed = 0

    def sample(self) -> Mapping[str, float]:
        found = self.figures.pop(0) if self.figures else {}
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self.closed += 1


def writer_with(workshop: Any, sampler: Any, *, step: int = 7, **settings: Any) -> RunWriter:
    worker = workshop.worker(attempt=workshop.claim())
    return RunWriter(
        workshop.store, worker, settings=Settings(**settings), clock=workshop.clock, background=False,
        status=lambda: Heartbeat(0, 0.0, step=step), wait=workshop.clock.advance, sampler=lambda: sampler,
    )


def test_samples_are_points_at_the_step_that_is_going_on(workshop: Any) -> None:
    writer = writer_with(workshop, Sampler({"cpu": 50.0}, {"cpu": 60.0}))
    for _ in range(2):
        writer.turn()
        workshop.clock.advance(0.5)
    writer.close(EndState.FINISHED)
    series = workshop.run().series(CPU)
    assert series.values.tolist() == [50.0, 60.0]
    assert series.steps.tolist() == [7, 7]
    assert (series.times - series.times[0]).tolist() == [0.0, 0.5]


def test_they_make_no_step(workshop: Any, make_records: MakeRecords) -> None:
    writer = writer_with(workshop, Sampler({"cpu": 50.0}))
    workshop.publish(writer, make_records(0))
    writer.close(EndState.FINISHED)
    assert workshop.run().steps().tolist() == [0]


def test_they_are_a_view_of_their_own_though_the_step_has_their_number(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = writer_with(workshop, Sampler({"cpu": 50.0}), step=0)
    writer.log("accuracy", 0.5, 0, Mode.TRAIN, 0.0)
    workshop.publish(writer, make_records(0, optimizer="D"))
    writer.close(EndState.FINISHED)
    views = list(workshop.run().views())
    assert sorted((view.step.optimizer, sorted(kind.value for kind in view.kinds)) for view in views) == [
        ("", ["machine"]), ("D", ["loss", "scalar", "weight"]),
    ]


def test_a_feed_goes_on_behind_them(workshop: Any, make_records: MakeRecords) -> None:
    writer = writer_with(workshop, Sampler({"cpu": 1.0}, {}, {"cpu": 2.0}), step=0)
    workshop.publish(writer, make_records(0))
    first = workshop.feed().poll()
    workshop.publish(writer, make_records(1))
    writer.close(EndState.FINISHED)
    second = workshop.feed(first.cursor).poll()
    assert [view.scalar(CPU) for view in (*first.views, *second.views) if Kind.MACHINE in view.kinds] == [1.0, 2.0]


def test_a_sampler_that_fails_is_named_and_asked_no_more(workshop: Any, make_records: MakeRecords) -> None:
    writer = writer_with(workshop, Sampler(OSError("no /proc"), {"cpu": 1.0}))
    workshop.publish(writer, make_records(0))
    assert writer.close(EndState.FINISHED).complete
    assert "Machine metrics are no longer recorded: OSError: no /proc" in writer.problems
    assert workshop.run().keys("machine") == []


def test_where_nothing_can_look_at_the_machine_the_run_is_written_all_the_same(
    workshop: Any, make_records: MakeRecords
) -> None:
    def make() -> Any:
        raise ModuleNotFoundError("No module named 'psutil'")

    worker = workshop.worker(attempt=workshop.claim())
    writer = RunWriter(
        workshop.store, worker, settings=Settings(), clock=workshop.clock, background=False,
        status=lambda: Heartbeat(0, 0.0), wait=workshop.clock.advance, sampler=make,
    )
    workshop.publish(writer, make_records(0))
    assert writer.close(EndState.FINISHED).complete
    assert workshop.run().steps().tolist() == [0]
    assert "psutil" in writer.problems[0]


def test_a_run_that_is_closed_lets_go_of_the_machine_and_drops_nothing(workshop: Any) -> None:
    sampler = Sampler(*[{"cpu": 1.0}] * 9)
    writer = writer_with(workshop, sampler)
    writer.turn()
    closing = writer.close(EndState.FINISHED)
    assert (sampler.closed, closing.complete, closing.dropped_points) == (1, True, 0)
    assert len(workshop.run().series(CPU)) == 1


def test_what_cannot_be_told_of_gpus_is_part_of_the_coverage(workshop: Any) -> None:
    sampler = Sampler()
    sampler.problem = "GPU use was not recorded: no permission"
    writer = writer_with(workshop, sampler)
    writer.turn()
    (worker,) = workshop.run().workers
    assert worker.last.coverage.reasons == (sampler.problem,)
    writer.close(EndState.FINISHED)
    (worker,) = workshop.run().workers
    assert worker.last.coverage.reasons == (sampler.problem,)


def test_where_memory_is_short_samples_are_passed_over_and_not_counted() -> None:
    inbox = Inbox(100)
    assert inbox.note({CPU: 1.0}, step=0, time_unix=0.0)
    assert not inbox.note({CPU: 1.0, Key(Kind.MACHINE, "memory"): 1.0, Key(Kind.MACHINE, "gpu[0]"): 1.0},
                          step=0, time_unix=0.0)
    assert (inbox.dropped_points, inbox.waiting_points) == (0, 1)


def test_series_that_were_delivered_stay_apart_from_those_of_the_machine() -> None:
    inbox = Inbox(10_000)
    a, b = (Series(Key(Kind.SCALAR, name), Mode.TRAIN) for name in "ab")
    deliver(inbox, (0, 3, 1.0), new=a)
    inbox.note({CPU: 50.0}, step=3, time_unix=0.0)
    deliver(inbox, (1, 4, 2.0), (0, 4, 3.0), new=b)
    inbox.note({CPU: 60.0}, step=4, time_unix=0.0)
    _, points = inbox.take()
    keys = [str(points.series[code].key) for code in points.points["series"]]
    assert list(zip(keys, points.points["tick"].tolist(), points.points["value"].tolist(), strict=True)) == [
        ("scalar:a", 3, 1.0), ("machine:cpu", 3, 50.0), ("scalar:b", 4, 2.0), ("scalar:a", 4, 3.0),
        ("machine:cpu", 4, 60.0),
    ]


def deliver(inbox: Inbox, *points: tuple[int, int, float], new: Series) -> None:
    import numpy as np

    rows = np.array([(series, tick, tick, value, 0.0) for series, tick, value in points], POINT)
    inbox.add_points(rows, [new])


def test_after_a_step_of_numbers_alone_the_next_one_is_going_on() -> None:
    inbox = Inbox(10_000)
    deliver(inbox, (0, 8, 0.5), new=Series(Key(Kind.LOSS, "loss"), Mode.TRAIN, logged=False))
    inbox.note({CPU: 50.0}, step=9, time_unix=0.0)
    _, points = inbox.take()
    assert isinstance(points, Points)
    assert points.points["tick"].tolist() == [8, 9]


def test_the_sampler_of_a_worker_looks_at_its_process(workshop: Any) -> None:
    sampler = sampler_for(workshop.worker(attempt=workshop.claim()), hz=2.0, clock=SystemClock())
    try:
        assert sampler.sample()["process_memory"] > 0
    finally:
        sampler.close()
    assert workshop.worker().pid == os.getpid()


@pytest.mark.parametrize("hz", [-1.0, 11.0])
def test_a_beat_that_cannot_be_kept_is_refused(hz: float) -> None:
    from barograph.errors import SettingsError

    with pytest.raises(SettingsError, match="machine_hz"):
        Settings(machine_hz=hz)
