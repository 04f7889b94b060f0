"""Files are made one without a row lost or doubled, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from barograph.errors import StoreError, StoreUnavailable
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.runs.format.layout import ChunkName
from barograph.runs.reading.doctor import examine
from barograph.runs.writing.compaction import (
    COMPACTED_BYTES,
    COMPACTED_ROWS,
    FILES_PER_LEVEL,
    sorted_by_key,
    worth_compacting,
    worth_compacting_at_end,
)
from barograph.runs.writing.outbox import Published

MakeRecords = Callable[..., StepRecords]


def files(*spans: int, size_bytes: int = 1000, rows: int = 1) -> list[Published]:
    """Files that follow each other, of so many chunks each."""
    found, first = [], 0
    for span in spans:
        found.append(Published(ChunkName("p0", 0, first, first + span - 1, "0" * 32), size_bytes, rows))
        first += span
    return found


def spans(workshop: Any) -> list[tuple[int, int]]:
    return [(chunk.first, chunk.last) for name in workshop.names("records") if (chunk := ChunkName.from_name(name))]


def test_a_level_is_made_one_when_it_is_full() -> None:
    assert worth_compacting(files(*[1] * 31)) == ()
    assert len(worth_compacting(files(*[1] * 40))) == FILES_PER_LEVEL
    assert worth_compacting(files(*[32] * 31, *[1] * 31)) == ()
    assert [file.name.first for file in worth_compacting(files(32, *[1] * 32))][:2] == [32, 33]
    assert len(worth_compacting(files(*[32] * 32, 1, 1))) == 32


def test_large_files_are_made_one_as_far_as_they_fit() -> None:
    third = COMPACTED_BYTES // 3
    assert worth_compacting(files(*[1] * 100, size_bytes=third)) == ()
    assert len(worth_compacting(files(*[1] * 10, size_bytes=COMPACTED_BYTES // 8))) == 8
    assert worth_compacting(files(*[1] * 100, size_bytes=2 * COMPACTED_BYTES)) == ()
    assert len(worth_compacting(files(*[1] * 10, rows=COMPACTED_ROWS // 6))) == 6
    assert worth_compacting(files(*[1] * 100, rows=COMPACTED_ROWS // 2)) == ()


class Counted(Published):
    """A file that counts how often files are asked for anything."""

    looks: ClassVar[int] = 0

    def __getattribute__(self, name: str) -> Any:
        Counted.looks += 1
        return super().__getattribute__(name)


def test_files_too_large_to_be_made_one_are_looked_at_a_few_times_each() -> None:
    large = [Counted(ChunkName("p0", 0, number, number, "0" * 32), COMPACTED_BYTES // 3) for number in range(1000)]
    assert worth_compacting(large) == ()
    assert Counted.looks < 20_000


def test_files_are_looked_at_when_one_was_published_and_not_every_turn(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def look(published: Sequence[Published]) -> Sequence[Published]:
        looked.append(len(published))
        return worth_compacting(published)

    monkeypatch.setattr("barograph.runs.writing.publisher.worth_compacting", look)
    writer = workshop.writer()
    for tick in range(3):
        workshop.publish(writer, make_records(tick))
        for _ in range(10):
            writer.turn()
    assert looked == [1, 2, 3]


def test_at_the_end_the_newest_files_are_made_one() -> None:
    assert [file.name.first for file in worth_compacting_at_end(files(32, 1, 1, 1), 3500)] == [32, 33, 34]
    assert worth_compacting_at_end(files(1), 10_000) == ()
    assert len(worth_compacting_at_end(files(1, 1, 1, rows=COMPACTED_ROWS // 2), 10_000)) == 2
    assert worth_compacting_at_end([], 10_000) == ()


def test_rows_are_the_same_before_and_after(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"create"}
    for tick in range(32):
        workshop.publish(writer, make_records(tick, loss=tick / 3, weight=[tick, -1.0, np.nan]))
    before = workshop.run().arrow().to_pylist()
    assert len(spans(workshop)) == 32
    workshop.store.error = None
    workshop.publish(writer)
    assert spans(workshop) == [(0, 31)]
    after = workshop.run().arrow().to_pylist()
    assert [(row["kind"], row["chunk"]) for row in after] == [(kind, chunk) for kind in ("loss", "weight")
                                                              for chunk in range(32)]
    assert sorted(map(repr, after)) == sorted(map(repr, before))


def test_a_short_run_is_one_file_when_it_ends(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick) for tick in range(5)))
    assert spans(workshop) == [(0, 4)]
    assert examine(workshop.store).intact


@pytest.mark.parametrize("verb", ["get", "create", "delete"])
def test_a_store_that_goes_away_in_the_middle_loses_nothing(
    workshop: Any, make_records: MakeRecords, verb: str
) -> None:
    writer = workshop.writer()
    for tick in range(31):
        workshop.publish(writer, make_records(tick))
    calls = 0

    def fail_at_the_third(called: str, name: str) -> None:
        nonlocal calls
        calls += called == verb and name.startswith("records")
        if calls == (1 if verb == "create" else 3):
            calls += 1
            raise StoreUnavailable("away")

    workshop.store.before = fail_at_the_third
    workshop.publish(writer, make_records(31))
    assert calls > 0
    assert workshop.run().series("loss:loss").steps.tolist() == list(range(32))
    workshop.store.before = lambda verb, name: None
    workshop.publish(writer)
    assert spans(workshop) == [(0, 31)]
    assert workshop.run().series("loss:loss").steps.tolist() == list(range(32))
    assert writer.close(EndState.FINISHED).complete


def test_an_answer_that_was_lost_after_the_file_was_made_does_no_harm(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = workshop.writer()
    for tick in range(31):
        workshop.publish(writer, make_records(tick))
    inner_create = workshop.store.inner.create
    answers: list[StoreError] = [StoreUnavailable("the answer was lost")]

    def create(name: str, data: bytes) -> None:
        inner_create(name, data)
        if answers:
            raise answers.pop()

    monkeypatch.setattr(workshop.store, "create", create)
    workshop.publish(writer, make_records(31))
    workshop.publish(writer)
    assert answers == []
    assert spans(workshop) == [(0, 31)]
    assert writer.close(EndState.FINISHED).complete


def test_a_writer_that_died_before_deleting_leaves_no_row_twice(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"delete"}
    for tick in range(32):
        workshop.publish(writer, make_records(tick))
    assert sorted(spans(workshop)) == sorted([(0, 31), *((number, number) for number in range(32))])
    run = workshop.run()
    assert run.series("loss:loss").steps.tolist() == list(range(32))
    assert [view.step.number for view in run.views()] == list(range(32))
    diagnosis = examine(workshop.store)
    assert diagnosis.intact
    assert len(diagnosis.leftover) == 32


def test_where_the_file_made_of_several_is_damaged_these_stand_in(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"delete"}
    for tick in range(32):
        workshop.publish(writer, make_records(tick))
    (merged,) = [name for name in workshop.names("records") if "00000000-00000031" in name]
    workshop.store.inner.put(merged, bytes(workshop.store.get(merged))[:-1])
    run = workshop.run()
    assert run.series("loss:loss").steps.tolist() == list(range(32))
    assert merged in run.damage[0]
    assert [view.step.number for view in workshop.feed().poll().views] == list(range(32))


def test_a_damaged_file_is_left_for_the_doctor(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(31):
        workshop.publish(writer, make_records(tick))
    victim = workshop.names("records")[7]
    workshop.store.inner.put(victim, b"damaged")
    workshop.publish(writer, make_records(31))
    assert len(spans(workshop)) == 32
    assert "damaged" in writer.problems[0]
    workshop.publish(writer, make_records(32))
    assert writer.close(EndState.FINISHED).complete
    assert workshop.run().series("loss:loss").steps.tolist() == [*range(7), *range(8, 33)]


def test_a_file_that_is_gone_keeps_neither_the_others_apart_nor_the_ending_away(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer()
    for tick in range(31):
        workshop.publish(writer, make_records(tick))
    workshop.store.inner.delete(workshop.names("records")[7])
    for tick in range(31, 45):
        workshop.publish(writer, make_records(tick))
    assert spans(workshop) == [(n, n) for n in range(7)] + [(8, 39)] + [(n, n) for n in range(40, 45)]
    closing = writer.close(EndState.FINISHED)
    assert (closing.complete, len(closing.problems)) == (True, 1)
    assert workshop.run().series("loss:loss").steps.tolist() == [*range(7), *range(8, 45)]
    assert ["Chunk 7" in text for text in examine(workshop.store).missing] == [True]


def test_a_file_found_gone_only_at_the_end_leaves_the_ending_its_place(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer()
    for tick in range(4):
        workshop.publish(writer, make_records(tick))
    workshop.store.inner.delete(workshop.names("records")[1])
    assert writer.close(EndState.FINISHED).complete
    assert workshop.names("endings") == ["endings/p0-0000.json"]


def test_a_store_that_only_takes_in_still_gets_the_ending(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(4):
        workshop.publish(writer, make_records(tick))
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"get"}
    assert writer.close(EndState.FINISHED).complete
    assert workshop.names("endings") == ["endings/p0-0000.json"]


def test_many_levels(workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barograph.runs.writing.compaction.FILES_PER_LEVEL", 3)
    writer = workshop.writer()
    for tick in range(31):
        workshop.publish(writer, make_records(tick))
    assert spans(workshop) == [(0, 26), (27, 29), (30, 30)]
    assert workshop.run().series("loss:loss").steps.tolist() == list(range(31))


def test_rows_made_one_are_in_the_order_in_which_they_happened() -> None:
    texts = {name: pa.array(values).dictionary_encode() for name, values in
             {"kind": ["output", "loss", "output", "output"], "path": ["a", "b", "a", "a"]}.items()}
    table = pa.table({**texts, "tick": [2, 1, 0, 1]})
    assert sorted_by_key(table)["tick"].to_pylist() == [1, 0, 1, 2]
