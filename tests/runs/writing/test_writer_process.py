"""The process that writes the run: what it does before it may write, and with how the training ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from barograph.errors import StoreDenied, StoreError, StoreUnavailable
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.runs.format.pending import POINT, Series, compact, without_subjects
from barograph.runs.reading.glance import glance
from barograph.runs.state.claim import workers_of
from barograph.runs.state.control import request_stop
from barograph.runs.state.process import Process
from barograph.runs.writing.writer_messages import Assignment, Delivery, End, StopMessage, Trouble
from barograph.runs.writing.writer_process import WriterProcess

MakeRecords = Callable[..., StepRecords]
FINISHED = End(EndState.FINISHED, "")


class Line:
    """A line on which nothing comes; keeps what is said."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def poll(self, timeout: float) -> bool:
        return False

    def recv(self) -> object:
        raise EOFError

    def send(self, obj: object) -> None:
        self.said.append(obj)


def scribe_for(
    workshop: Any, *, wait: Callable[[float], object] | None = None, **more: Any
) -> tuple[WriterProcess, Line]:
    settings = Settings(**{name: more.pop(name) for name in ("queue_bytes", "flush_secs") if name in more})
    order = Assignment(workshop.store.url, workshop.claim(), None, 1, {}, settings.to_json(), "claim")
    line = Line()
    writer_process = WriterProcess(
        line, replace(order, **more), workshop.store, employer=0, clock=workshop.clock,
        wait=wait or workshop.clock.advance, background=False,
    )
    return writer_process, line


def delivery(
    *steps: StepRecords, new_series: Sequence[Series] = (), points: Sequence[tuple[int, int, int, float, float]] = (),
    status: Heartbeat | None = None,
) -> Delivery:
    return Delivery(
        steps[-1].subjects if steps else None, tuple(without_subjects(compact(step)) for step in steps),
        tuple(new_series), np.array(list(points), POINT), status or Heartbeat(0, 0.0), 0, 0,
    )


def away_until(workshop: Any, monotonic: float, error: StoreError) -> Callable[[float], None]:
    """Let the store fail until then, and time pass while it is waited for."""
    workshop.store.error = error

    def wait(secs: float) -> None:
        workshop.clock.advance(secs)
        if workshop.clock.monotonic() >= monotonic:
            workshop.store.error = None

    return wait


def test_what_comes_before_the_run_can_be_written_is_written_when_it_can(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer_process, line = scribe_for(workshop, wait=lambda secs: wait(secs))
    wait = away_until(workshop, 3.0, StoreUnavailable("away"))
    writer_process.receive(delivery(make_records(0), make_records(1)))
    writer = writer_process.claim()
    writer_process.receive(delivery(make_records(2)))
    assert writer_process.finish(FINISHED).complete
    assert workshop.run().steps().tolist() == [0, 1, 2]
    assert (writer.worker.name, line.said) == ("p0", [])


def test_a_delivery_without_the_state_of_the_training_keeps_the_last_one(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer_process, _ = scribe_for(workshop)
    writer_process.receive(delivery(make_records(0), status=Heartbeat(0, 0.0, step=7)))
    writer_process.receive(replace(delivery(make_records(1)), status=None))
    writer_process.claim()
    writer_process.finish(FINISHED)
    last = glance(workshop.store).workers[0].last
    assert last is not None
    assert last.step == 7


def test_what_is_urgent_is_written_as_soon_as_the_run_can_be(workshop: Any, make_records: MakeRecords) -> None:
    writer_process, _ = scribe_for(workshop, flush_secs=60.0)
    writer_process.receive(replace(delivery(make_records(0)), urgent=True))
    writer = writer_process.claim()
    writer.turn()
    assert workshop.run().steps().tolist() == [0]


def test_memory_is_bounded_while_the_run_cannot_be_written(workshop: Any, make_records: MakeRecords) -> None:
    writer_process, _ = scribe_for(workshop, queue_bytes=10_000, wait=lambda secs: wait(secs))
    wait = away_until(workshop, 3.0, StoreUnavailable("away"))
    series = [Series(Key(Kind.SCALAR, "accuracy"), Mode.TRAIN)]
    for tick in range(100):
        writer_process.receive(
            delivery(make_records(tick), new_series=series[tick:], points=[(0, tick, tick, 0.5, 0.0)])
        )
    writer_process.claim()
    closing = writer_process.finish(FINISHED)
    kept = workshop.run().series("loss:loss").steps.tolist()
    assert kept == list(range(len(kept)))
    assert 0 < len(kept) < 50
    assert closing.complete
    assert closing.dropped_steps == 100 - len(kept)
    assert closing.dropped_points == 100 - len(workshop.run().series("scalar:accuracy"))


def test_a_store_that_stays_away_is_told_once_after_some_seconds(workshop: Any) -> None:
    writer_process, line = scribe_for(workshop, wait=lambda secs: wait(secs))
    told: list[tuple[float, int]] = []
    away = away_until(workshop, 60.0, StoreUnavailable("no route"))

    def wait(secs: float) -> None:
        told.append((workshop.clock.monotonic(), len(line.said)))
        away(secs)

    writer_process.claim()
    assert [type(item) for item in line.said] == [Trouble]
    assert "the run cannot be written yet" in line.said[0].text
    assert "no route" in line.said[0].text
    assert 5.0 <= next(when for when, count in told if count) < 6.0


def test_a_store_that_refuses_is_told_at_once(workshop: Any) -> None:
    writer_process, line = scribe_for(workshop, wait=lambda secs: wait(secs))
    wait = away_until(workshop, 1.0, StoreDenied("set a key"))
    writer_process.claim()
    assert [item.text.rpartition(": ")[2] for item in line.said] == ["set a key"]


def test_what_could_never_be_written_is_counted(workshop: Any, make_records: MakeRecords) -> None:
    writer_process, _ = scribe_for(workshop)
    writer_process.receive(delivery(make_records(0), make_records(1)))
    writer_process.receive(
        delivery(new_series=[Series(Key(Kind.SCALAR, "a"), Mode.TRAIN)], points=[(0, 0, 0, 0.5, 0.0)])
    )
    closing = writer_process.finish(FINISHED)
    assert (closing.complete, closing.lost_steps, closing.lost_points) == (False, 2, 1)


def test_series_keep_their_numbers_though_each_is_told_but_once(workshop: Any) -> None:
    writer_process, _ = scribe_for(workshop)
    first, second = (Series(Key(Kind.SCALAR, name), Mode.TRAIN) for name in "ab")
    writer_process.receive(delivery(new_series=[first], points=[(0, 0, 0, 1.0, 0.0)]))
    writer_process.claim()
    writer_process.receive(delivery(new_series=[second], points=[(1, 0, 1, 2.0, 0.0)]))
    writer_process.receive(delivery(points=[(0, 0, 2, 3.0, 0.0), (1, 0, 2, 4.0, 0.0)]))
    assert writer_process.finish(FINISHED).complete
    run = workshop.run()
    assert run.series("scalar:a").values.tolist() == [1.0, 3.0]
    assert run.series("scalar:b").values.tolist() == [2.0, 4.0]


def test_another_scribe_of_one_worker_goes_on_where_the_first_was(workshop: Any, make_records: MakeRecords) -> None:
    writer_process, _ = scribe_for(workshop)
    workshop.publish(writer_process.claim(), make_records(0))
    order = Assignment(workshop.store.url, 0, None, 1, {}, Settings().to_json(), "claim", again=True)
    again = WriterProcess(Line(), order, workshop.store, employer=0, clock=workshop.clock, background=False)
    again.receive(delivery(make_records(1)))
    again.claim()
    assert again.finish(FINISHED).complete
    run = workshop.run()
    assert (run.steps().tolist(), [item.worker.name for item in run.workers]) == ([0, 1], ["p0"])


@pytest.mark.parametrize(("steps_made", "endings"), [(12, ["endings/p0-0000.json"]), (13, [])])
def test_a_training_that_was_asked_to_stop_and_went_on_was_not_stopped_when_it_is_gone(
    workshop: Any, make_records: MakeRecords, steps_made: int, endings: list[str]
) -> None:
    writer_process, line = scribe_for(workshop)
    writer = writer_process.claim()
    writer_process.receive(delivery(make_records(0), status=Heartbeat(0, 0.0, step=6, step_secs=0.5)))
    request_stop(workshop.store, reason="Dead.", finding_id="", attempt=0, clock=workshop.clock)
    workshop.publish(writer)
    assert line.said == [StopMessage("Dead.", 0)]
    writer_process.receive(delivery(status=Heartbeat(0, 0.0, step=steps_made)))
    writer_process.finish(None)
    assert workshop.names("endings") == endings


def test_the_worker_is_the_process_that_was_named_whoever_is_the_parent_by_then(workshop: Any) -> None:
    writer_process, _ = scribe_for(workshop, process=Process(4711, "host", "boot", 9))
    writer_process.claim()
    (worker,) = workers_of(workshop.store, 0)
    assert (worker.pid, worker.host, worker.started_ticks) == (4711, "host", 9)
