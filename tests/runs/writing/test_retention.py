"""A run keeps within its limits, and says what went."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from barograph.errors import StoreUnavailable
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Worker
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.model.tensor import RawTensor
from barograph.runs.format.layout import ChunkName
from barograph.runs.format.progress import BESIDE
from barograph.runs.reading.doctor import examine
from barograph.runs.writing.outbox import Published
from barograph.runs.writing.retention import beyond_limits
from barograph.runs.writing.writer import RunWriter

MakeRecords = Callable[..., StepRecords]


def file(number: int, size_bytes: int = 100, **last_steps: int) -> Published:
    return Published(ChunkName("p0", 0, number, number, "0" * 32), size_bytes, 1, last_steps=last_steps or {"": number})


def test_files_whose_steps_are_all_too_old_go() -> None:
    files = [file(number) for number in range(10)]
    assert beyond_limits(files, keep_last=3, max_bytes=None) == files[:7]
    assert beyond_limits(files, keep_last=10, max_bytes=None) == []
    assert beyond_limits(files, keep_last=None, max_bytes=None) == []


def test_the_oldest_go_until_the_bytes_fit() -> None:
    files = [file(number) for number in range(10)]
    assert beyond_limits(files, keep_last=None, max_bytes=350) == files[:7]
    assert beyond_limits(files, keep_last=None, max_bytes=1000) == []


def test_the_newest_file_always_stays() -> None:
    assert beyond_limits([file(0, size_bytes=10**9)], keep_last=1, max_bytes=1) == []


def test_the_optimizer_that_steps_most_says_how_old_a_file_is() -> None:
    files = [file(0, d=5, g=1), file(1, d=10, g=2), file(2, d=15, g=3)]
    assert beyond_limits(files, keep_last=11, max_bytes=None) == []
    assert beyond_limits(files, keep_last=10, max_bytes=None) == files[:1]
    assert beyond_limits(files, keep_last=5, max_bytes=None) == files[:2]


@pytest.mark.parametrize("rare", [{"warm_up": 3}, {BESIDE: 0}, {BESIDE: 10**9}])
def test_what_steps_rarely_or_never_again_keeps_nothing_back(rare: dict[str, int]) -> None:
    files = [Published(file(0).name, 100, 1, last_steps=rare), *(file(number) for number in range(1, 10))]
    assert beyond_limits(files, keep_last=3, max_bytes=None) == files[:7]


def test_a_file_in_which_nothing_was_trained_is_as_old_as_the_next() -> None:
    files = [file(0), Published(file(1).name, 100, 1, last_steps={BESIDE: 99}), file(2), file(3), file(4)]
    assert beyond_limits(files, keep_last=3, max_bytes=None) == files[:1]
    assert beyond_limits(files, keep_last=2, max_bytes=None) == files[:3]


def test_an_evaluation_at_the_start_does_not_keep_everything(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer(keep_last=5)
    workshop.publish(writer, make_records(0, 0, mode=Mode.EVAL))
    for tick in range(1, 20):
        workshop.publish(writer, make_records(tick))
    assert workshop.run().steps().tolist() == [15, 16, 17, 18, 19]


def test_what_the_script_logs_for_steps_far_ahead_makes_nothing_old(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer(keep_last=5)
    for tick in range(10):
        writer.log("samples", 0.5, tick * 1000, Mode.TRAIN, 0.0)
        workshop.publish(writer, make_records(tick))
    writer.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()), keep_last=5)
    workshop.publish(second, make_records(0, 10))
    assert workshop.run().steps().tolist() == [5, 6, 7, 8, 9, 10]  # all in one file, of which 6 is to be kept


def test_only_the_last_steps_are_kept_and_the_run_says_so(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick) for tick in range(20)), keep_last=5)
    assert workshop.run().steps().tolist() == [15, 16, 17, 18, 19]
    diagnosis = examine(workshop.store)
    assert diagnosis.intact
    assert diagnosis.removed == ["Chunks up to 14 of worker p0 in attempt 0 were removed, as the settings require."]
    result = workshop.feed().poll()
    assert ([view.step.number for view in result.views], result.damage) == ([15, 16, 17, 18, 19], ())
    assert result.ended


def test_bytes_are_kept_within_the_workers_share(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    writer = workshop.writer(workshop.worker(rank=0, world_size=2), max_bytes=100_000)
    for tick in range(30):
        workshop.publish(writer, make_records(tick))
    assert sum(item.size_bytes for item in workshop.store.inner.list("records")) <= 50_000
    assert workshop.run().steps()[-1] == 29


def test_tensors_go_with_their_chunk(workshop: Any, make_records: MakeRecords) -> None:
    tensors = {Key(Kind.CUSTOM, "map"): RawTensor("uint8", (1000,), bytes(1000))}
    writer = workshop.writer(keep_last=2)
    for tick in range(6):
        workshop.publish(writer, make_records(tick, tensors=tensors))
    workshop.publish(writer)
    assert len(workshop.names("tensors")) == 2
    assert workshop.run().tensor("custom:map", 5).shape == (1000,)
    writer.close(EndState.FINISHED)
    assert examine(workshop.store).intact


def test_the_note_is_written_before_anything_goes(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer(keep_last=1)
    workshop.publish(writer, make_records(0))
    workshop.store.calls.clear()
    workshop.publish(writer, make_records(1))
    told = [(verb, name.partition("/")[0]) for verb, name in workshop.store.calls]
    assert told.index(("put", "retention")) < told.index(("delete", "records"))


@pytest.mark.parametrize("verb", ["put", "delete"])
def test_a_store_that_goes_away_meanwhile_is_tried_again(
    workshop: Any, make_records: MakeRecords, verb: str
) -> None:
    writer = workshop.writer(keep_last=1)
    failures = [StoreUnavailable("away")]

    def fail_once(called: str, name: str) -> None:
        if called == verb and name.partition("/")[0] in ("retention", "records") and "00000000-00000000" not in name:
            if verb == "put" and name.startswith("records"):
                return
            if failures:
                raise failures.pop()

    workshop.publish(writer, make_records(0), make_records(1))
    workshop.store.before = fail_once
    for tick in range(2, 6):
        workshop.publish(writer, make_records(tick))
    workshop.publish(writer)
    assert failures == []
    assert workshop.run().steps().tolist() == [5]


def test_logged_numbers_alone_are_kept_by_their_steps(workshop: Any) -> None:
    writer = workshop.writer(keep_last=10)
    for number in range(100):
        writer.log("accuracy", 0.5, number, Mode.TRAIN, 0.0)
        workshop.publish(writer)
    assert 10 <= len(workshop.run().series("scalar:accuracy")) < 60


def test_a_later_attempt_keeps_the_whole_run_within_its_limits(workshop: Any, make_records: MakeRecords) -> None:
    tensors = {Key(Kind.CUSTOM, "map"): RawTensor("uint8", (1000,), bytes(1000))}
    writer = workshop.writer()
    for tick in range(10):
        workshop.publish(writer, make_records(tick, tensors=tensors if tick < 3 else {}))
    writer.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()), keep_last=5)
    for tick in range(3):
        workshop.publish(second, make_records(tick, tick + 8))
    assert workshop.run().steps().tolist() == list(range(11))  # all in one file, of which step 9 is to be kept
    for tick in range(3, 8):
        workshop.publish(second, make_records(tick, tick + 8))
    assert workshop.run().steps().tolist() == [11, 12, 13, 14, 15]
    assert workshop.names("tensors") == []
    second.close(EndState.FINISHED)
    assert examine(workshop.store).intact


def writer_after(workshop: Any, worker: Worker, first_chunk: int, **settings: Any) -> RunWriter:
    """A writer that goes on where another one of the same worker is gone."""
    return RunWriter(
        workshop.store, worker, settings=Settings(**settings), clock=workshop.clock,
        status=lambda: Heartbeat(0, 0.0), background=False, wait=workshop.clock.advance, first_chunk=first_chunk,
    )


@pytest.mark.parametrize("limits", [{"keep_last": 2}, {"max_bytes": 30_000}])
def test_a_writer_begun_anew_keeps_within_the_limits_what_the_one_before_it_left(
    workshop: Any, make_records: MakeRecords, limits: dict[str, int]
) -> None:
    first = workshop.writer(**limits)
    for tick in range(3):
        workshop.publish(first, make_records(tick))
    second = writer_after(workshop, first.worker, 3, **limits)
    for tick in range(3, 10):
        workshop.publish(second, make_records(tick))
    assert workshop.run().steps()[0] >= 3
    assert sum(item.size_bytes for item in workshop.store.inner.list("records")) <= 30_000
    diagnosis = examine(workshop.store)
    assert (diagnosis.damaged, diagnosis.missing, diagnosis.leftover) == ([], [], [])


def test_what_compaction_left_behind_goes_with_the_file_that_holds_its_rows(
    workshop: Any, make_records: MakeRecords
) -> None:
    tensors = {Key(Kind.CUSTOM, "map"): RawTensor("uint8", (1000,), bytes(1000))}
    first = workshop.writer()
    for tick in range(31):
        workshop.publish(first, make_records(tick, tensors=tensors))
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"delete"}
    workshop.publish(first, make_records(31, tensors=tensors))
    workshop.store.error = None
    assert len(workshop.names("records")) == 33
    second = writer_after(workshop, first.worker, 32, keep_last=5)
    for tick in range(32, 36):
        workshop.publish(second, make_records(tick, tensors=tensors))
    # The file that holds step 31 stays whole, and with it every tensor that its rows speak of.
    assert [workshop.run().tensor("custom:map", tick).shape for tick in (0, 31)] == [(1000,), (1000,)]
    for tick in range(36, 40):
        workshop.publish(second, make_records(tick, tensors=tensors))
    assert workshop.run().steps().tolist() == [35, 36, 37, 38, 39]
    assert (len(workshop.names("records")), len(workshop.names("tensors"))) == (5, 5)


def test_rows_that_stay_keep_their_tensors_though_compaction_left_files_behind(
    workshop: Any, make_records: MakeRecords
) -> None:
    tensors = {Key(Kind.CUSTOM, "map"): RawTensor("uint8", (1000,), bytes(1000))}
    first = workshop.writer()
    for tick in range(31):
        workshop.publish(first, make_records(tick, tensors=tensors))
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"delete"}
    workshop.publish(first, make_records(31, tensors=tensors))
    workshop.store.error = None
    used_bytes = sum(item.size_bytes for item in workshop.store.inner.list())
    second = writer_after(workshop, first.worker, 32, max_bytes=used_bytes // 2)
    for tick in range(32, 36):
        workshop.publish(second, make_records(tick, tensors=tensors))
    steps = workshop.run().steps().tolist()
    assert len(steps) == len(workshop.names("tensors")) > 0
    assert all(workshop.run().tensor("custom:map", step).shape == (1000,) for step in steps)


def test_an_earlier_file_that_is_damaged_goes_with_those_beside_it(workshop: Any, make_records: MakeRecords) -> None:
    first = workshop.writer()
    for tick in range(3):
        workshop.publish(first, make_records(tick))
    workshop.store.inner.put(workshop.names("records")[1], b"damaged")
    second = writer_after(workshop, first.worker, 3, keep_last=2)
    for tick in range(3, 6):
        workshop.publish(second, make_records(tick))
    assert workshop.run().steps().tolist() == [4, 5]
    assert examine(workshop.store).damaged == []


def test_hearts_beat_while_many_earlier_files_are_looked_at(workshop: Any, make_records: MakeRecords) -> None:
    first = workshop.writer()
    for tick in range(20):
        workshop.publish(first, make_records(tick))
    second = writer_after(workshop, first.worker, 20, keep_last=1)
    second.put(make_records(20))
    beats: list[float] = []

    def take_long(verb: str, name: str) -> None:
        if (verb, name.partition("/")[0]) == ("get", "records"):
            workshop.clock.advance(0.4)
        if (verb, name.partition("/")[0]) == ("put", "heartbeats"):
            beats.append(workshop.clock.monotonic())

    workshop.store.before = take_long
    for _ in range(100):
        second.turn()
        workshop.clock.advance(0.1)
    assert workshop.run().steps().tolist() == [20]
    assert max(later - earlier for earlier, later in pairwise(beats)) < 2.0


def test_where_only_bytes_are_limited_no_earlier_file_is_read(workshop: Any, make_records: MakeRecords) -> None:
    first = workshop.writer()
    for tick in range(3):
        workshop.publish(first, make_records(tick))
    second = writer_after(workshop, first.worker, 3, max_bytes=20_000)
    workshop.store.calls.clear()
    for tick in range(3, 6):
        workshop.publish(second, make_records(tick))
    assert [name for verb, name in workshop.store.calls if verb == "get"] == []
    assert len(workshop.names("records")) == 3
