"""The writer publishes what it takes in, within its time and memory, whatever the store does."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest

from barograph.errors import StoreDenied, StoreFull, StoreUnavailable
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.model.tensor import RawTensor
from barograph.runs.format.layout import ChunkName
from barograph.runs.format.metadata import ending_from_bytes, heartbeat_from_bytes
from barograph.runs.format.pending import Recorded
from barograph.runs.writing.writer import RunWriter

MakeRecords = Callable[..., StepRecords]


def test_a_step_is_published_at_most_flush_secs_later(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer(flush_secs=2.0)
    writer.put(make_records(0))
    writer.turn()
    workshop.clock.advance(1.8)
    writer.turn()
    assert workshop.names("records") == []
    workshop.clock.advance(0.1)
    writer.turn()
    assert len(workshop.names("records")) == 1
    assert workshop.run().steps().tolist() == [0]


def test_a_step_is_published_at_once_if_that_is_asked_for(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer(flush_secs=60.0)
    writer.put(make_records(0))
    writer.flush()
    writer.turn()
    assert workshop.run().steps().tolist() == [0]
    writer.put(make_records(1))
    writer.turn()
    assert len(workshop.names("records")) == 1


def test_chunks_are_numbered_through(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(3):
        workshop.publish(writer, make_records(tick))
    numbers = [(chunk.first, chunk.last) for name in workshop.names("records") if (chunk := ChunkName.from_name(name))]
    assert numbers == [(0, 0), (1, 1), (2, 2)]
    assert writer.chunks == 3


def test_nothing_recorded_is_nothing_published(workshop: Any) -> None:
    writer = workshop.writer()
    writer.put(StepRecords(Step(0, 0)))
    workshop.clock.advance(100)
    writer.turn()
    assert writer.close(EndState.FINISHED).complete
    assert workshop.names("records") == []


def test_a_heartbeat_comes_every_second_and_counts_up(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    beats = []
    for _ in range(5):
        writer.turn()
        beats.append(heartbeat_from_bytes(workshop.store.get("heartbeats/p0-0000.json"), "h").beat)
        workshop.clock.advance(0.5)
    assert beats == [1, 1, 2, 2, 3]


def test_a_heartbeat_says_how_training_goes_and_what_the_writer_did(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    told = Heartbeat(0, 0.0, step=42, loss=0.5, problems=("a hook failed",))
    writer = RunWriter(workshop.store, worker, settings=Settings(), clock=workshop.clock, status=lambda: told,
                       background=False, wait=workshop.clock.advance)
    workshop.publish(writer, make_records(0))
    workshop.clock.advance(2)
    writer.turn()
    read = heartbeat_from_bytes(workshop.store.get("heartbeats/p0-0000.json"), "h")
    expected = dataclasses.replace(told, beat=3, time_unix=workshop.clock.unix(), chunks=1)
    assert dataclasses.replace(read, step_secs=0.0, cost=told.cost) == dataclasses.replace(expected, step_secs=0.0)


def test_a_clock_that_jumps_disturbs_nothing(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(4):
        workshop.publish(writer, make_records(tick))
        workshop.clock.jump(-86_400 if tick % 2 else 3_600)
    assert writer.close(EndState.FINISHED).complete
    assert workshop.run().series("loss:loss").steps.tolist() == [0, 1, 2, 3]


def test_control_is_looked_for_every_half_second(workshop: Any) -> None:
    seen: list[object] = []
    writer = workshop.writer(on_control=seen.append)
    for _ in range(5):
        writer.turn()
        workshop.clock.advance(0.25)
    assert seen == [workshop.store] * 3


def test_the_ending_says_how_and_why_and_how_many_chunks(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    writer.put(make_records(1))
    closing = writer.close(EndState.FAILED, "ValueError: no")
    assert (closing.complete, closing.lost_steps, closing.problems) == (True, 0, ())
    ending, last_chunk = ending_from_bytes(workshop.store.get("endings/p0-0000.json"), "e")
    assert (ending.state, ending.reason, last_chunk) == (EndState.FAILED, "ValueError: no", 1)
    assert writer.close(EndState.FINISHED) is closing


def test_after_close_nothing_is_taken_in(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.finished(make_records(0))
    assert not writer.put(make_records(1))
    assert writer.dropped_steps == 1


def test_a_store_that_is_away_for_a_minute_costs_nothing(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    workshop.store.error = StoreUnavailable("away")
    for tick in range(1, 61):
        assert writer.put(make_records(tick))
        writer.turn()
        workshop.clock.advance(1)
    workshop.store.error = None
    workshop.clock.advance(5)
    writer.turn()  # what was sealed when the store went away
    writer.turn()  # what came together meanwhile
    assert workshop.run().steps().tolist() == list(range(61))
    assert len(workshop.names("records")) == 3
    assert writer.close(EndState.FINISHED).complete
    assert "away" in writer.problems[0]


def test_a_store_that_is_away_is_left_alone_longer_and_longer(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    writer.turn()
    workshop.store.error = StoreUnavailable("away")
    workshop.store.calls.clear()
    writer.put(make_records(0))
    for _ in range(600):
        workshop.clock.advance(0.1)
        writer.turn()
    assert len(workshop.store.calls) == 15  # at 1 s, then after 0.5, 1, 2 and every 5 seconds of the minute


def test_a_store_that_is_away_for_ever_bounds_memory_and_counts(workshop: Any, make_records: MakeRecords) -> None:
    size_bytes = Recorded(make_records(0)).size_bytes
    writer = workshop.writer(queue_bytes=20 * size_bytes, close_timeout_secs=3.0)
    workshop.store.error = StoreUnavailable("away")
    taken = 0
    for tick in range(500):
        taken += writer.put(make_records(tick))
        writer.turn()
        workshop.clock.advance(0.1)
    assert 20 <= taken < 500
    before = workshop.clock.monotonic()
    closing = writer.close(EndState.FINISHED)
    assert workshop.clock.monotonic() - before < 4
    assert not closing.complete
    assert (closing.lost_steps, closing.dropped_steps) == (taken, 500 - taken)
    assert "away" in closing.problems[0]


def test_what_was_dropped_is_told_in_the_next_chunk_and_the_ending(workshop: Any, make_records: MakeRecords) -> None:
    size_bytes = Recorded(make_records(0)).size_bytes
    writer = workshop.writer(queue_bytes=2 * size_bytes)
    for tick in range(5):
        writer.put(make_records(tick))
    assert writer.dropped_steps == 3
    workshop.publish(writer)
    workshop.publish(writer, make_records(5))
    assert writer.close(EndState.FINISHED).dropped_steps == 3
    assert workshop.run().steps().tolist() == [0, 1, 5]
    assert ending_from_bytes(workshop.store.get("endings/p0-0000.json"), "e")[0].last.dropped_steps == 3


@pytest.mark.parametrize("error", [StoreFull("no room"), StoreDenied("read-only")])
def test_a_place_that_takes_nothing_is_tried_again(workshop: Any, make_records: MakeRecords, error: Any) -> None:
    writer = workshop.writer()
    workshop.store.error = error
    workshop.store.verbs = {"put", "create"}
    workshop.publish(writer, make_records(0))
    assert workshop.names("records") == []
    assert str(error) in writer.problems[0]
    workshop.store.error = None
    workshop.publish(writer, make_records(1))
    writer.turn()
    assert workshop.run().steps().tolist() == [0, 1]


def test_a_step_that_cannot_be_resolved_is_counted_and_the_others_go_on(
    workshop: Any, make_records: MakeRecords
) -> None:
    class Broken(Recorded):
        def resolve(self) -> StepRecords:
            raise RuntimeError("the device is gone")

    writer = workshop.writer()
    writer.put(make_records(0))
    writer.put(Broken(make_records(1)))
    writer.put(make_records(2))
    workshop.publish(writer)
    assert workshop.run().steps().tolist() == [0, 2]
    assert writer.dropped_steps == 1
    assert "the device is gone" in writer.problems[0]


def test_a_chunk_that_cannot_be_encoded_is_counted_and_the_others_go_on(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer(queue_bytes=50_000)
    workshop.publish(writer, make_records(0))
    for tick in range(1, 40):
        step = make_records(tick)
        writer.log("accuracy", 0.5, tick, Mode.TRAIN, 0.0)
        workshop.publish(writer, dataclasses.replace(step, step=dataclasses.replace(step.step, time_unix=math.nan)))
    workshop.publish(writer, make_records(40))
    closing = writer.close(EndState.FINISHED)
    assert (closing.complete, closing.dropped_steps, closing.dropped_points) == (True, 39, 39)
    assert "1 steps and 1 logged numbers could not be written: ValueError" in closing.problems[0]
    assert workshop.run().steps().tolist() == [0, 40]
    assert workshop.run().workers[0].last.dropped_points == 39


def test_a_tensor_saved_under_a_name_that_is_no_text_is_kept_with_its_step(
    workshop: Any, make_records: MakeRecords
) -> None:
    tensors = {Key(Kind.CUSTOM, "caf\udce9"): RawTensor("uint8", (2,), b"\1\2")}
    workshop.finished(make_records(0), make_records(1, tensors=tensors))
    run = workshop.run()
    assert run.steps().tolist() == [0, 1]
    assert run.tensor("custom:caf?", 1).tolist() == [1, 2]


def test_logged_numbers_are_published_in_order(workshop: Any) -> None:
    writer = workshop.writer()
    for number in range(1000):
        writer.log("accuracy", number / 8, number, Mode.TRAIN, 1_800_000_000.0 + number)
    workshop.publish(writer)
    writer.close(EndState.FINISHED)
    series = workshop.run().series("scalar:accuracy")
    assert series.steps.tolist() == list(range(1000))
    assert series.values.tolist() == [number / 8 for number in range(1000)]
    assert series.times[[0, -1]].tolist() == [1_800_000_000.0, 1_800_000_999.0]


def test_a_number_of_one_series_costs_as_little_however_many_series_there_are(workshop: Any) -> None:
    writer = workshop.writer()
    for number in range(5000):
        writer.log(f"layer {number}/metric", 0.5, 0, Mode.TRAIN, 0.0)
    workshop.publish(writer)
    writer.log("layer 7/metric", 1.5, 1, Mode.TRAIN, 0.0)
    workshop.publish(writer)
    sizes = [item.size_bytes for item in workshop.store.inner.list("records")]
    assert sizes[0] > 15_000
    assert sizes[1] < 8_000
    assert workshop.run().series("scalar:layer 7/metric").values.tolist() == [0.5, 1.5]


def test_a_million_logged_numbers_take_at_most_sixteen_bytes_each(workshop: Any) -> None:
    import random

    noise = random.Random(20261120)
    writer = workshop.writer()
    log, now = writer.log, 1_800_000_000.0
    for number in range(1_000_000):
        now += noise.expovariate(10.0)
        log("loss", noise.gauss(0.0, 1.0), number, Mode.TRAIN, now)
        if number % 100_000 == 0:
            workshop.publish(writer)
    assert writer.close(EndState.FINISHED).complete
    size_bytes = sum(item.size_bytes for item in workshop.store.inner.list("records"))
    assert writer.dropped_points == 0
    assert size_bytes / 1_000_000 <= 16
    assert workshop.run().series("scalar:loss").steps.tolist() == list(range(1_000_000))


def test_a_step_that_saves_tensors_publishes_them_first(workshop: Any, make_records: MakeRecords) -> None:
    key = Key(Kind.CUSTOM, "map")
    writer = workshop.writer()
    workshop.publish(writer, make_records(0, tensors={key: RawTensor("float32", (2,), bytes(8))}))
    puts = [name for verb, name in workshop.store.calls if verb == "put" and not name.startswith("heartbeats")]
    assert [name.partition("/")[0] for name in puts] == ["tensors", "records"]


def test_a_tensor_of_an_unknown_type_is_reported_and_the_step_kept(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, make_records(0, tensors={Key(Kind.CUSTOM, "map"): RawTensor("quint4", (1,), b"\0")}))
    assert workshop.run().steps().tolist() == [0]
    assert "quint4" in writer.problems[0]


def test_a_thread_of_its_own_publishes_while_the_caller_waits_for_nothing(
    workshop: Any, make_records: MakeRecords
) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    held, released = threading.Event(), threading.Event()

    def slow(verb: str, name: str) -> None:
        if name.startswith("records"):
            held.set()
            assert released.wait(600)

    workshop.store.before = slow
    writer = RunWriter(workshop.store, worker, settings=Settings(flush_secs=0.1), status=lambda: Heartbeat(0, 0.0))
    writer.put(make_records(0))
    assert held.wait(600)
    assert all(writer.put(make_records(tick)) for tick in range(1, 100))
    released.set()
    closing = writer.close(EndState.FINISHED)
    assert closing.complete
    assert workshop.run().steps().tolist() == list(range(100))


def test_a_store_that_never_answers_does_not_hold_up_the_end(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    never = threading.Event()
    workshop.store.before = lambda verb, name: None if name.startswith("workers") else never.wait(600) and None
    settings = Settings(flush_secs=0.1, close_timeout_secs=0.3)
    writer = RunWriter(workshop.store, worker, settings=settings, status=lambda: Heartbeat(0, 0.0))
    writer.put(make_records(0))
    closing = writer.close(EndState.FINISHED)
    assert (closing.complete, closing.lost_steps) == (False, 1)
    never.set()
