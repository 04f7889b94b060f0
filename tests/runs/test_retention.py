"""A run keeps within its limits, and says what went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barograph.errors import StoreUnavailable
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.model.step import Mode
from barograph.model.tensor import RawTensor
from barograph.runs.doctor import examine
from barograph.runs.layout import ChunkName
from barograph.runs.outbox import Published
from barograph.runs.retention import beyond_limits

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


def test_each_optimizer_keeps_its_own_steps() -> None:
    files = [file(0, d=5, g=1), file(1, d=10, g=2), file(2, d=15, g=3)]
    assert beyond_limits(files, keep_last=3, max_bytes=None) == []
    assert beyond_limits(files, keep_last=2, max_bytes=None) == files[:1]


def test_only_the_last_steps_are_kept_and_the_run_says_so(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick) for tick in range(20)), keep_last=5)
    assert workshop.run().steps().tolist() == [15, 16, 17, 18, 19]
    diagnosis = examine(workshop.store)
    assert diagnosis.whole
    assert diagnosis.removed == ["Chunks up to 14 of worker p0 in attempt 0 were removed, as the settings ask."]
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
    assert examine(workshop.store).whole


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
    assert examine(workshop.store).whole
