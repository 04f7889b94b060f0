"""A file that is proved, and yet of another run, worker, attempt or chunk, is named and never read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barograph.errors import DamagedChunk
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.runs.format.belonging import open_published
from barograph.runs.format.codec import ChunkNotes, parquet_bytes
from barograph.runs.format.layout import ChunkName, digest_of
from barograph.runs.format.schema import SCHEMA
from barograph.runs.reading.doctor import examine
from barograph.store.urls import store_from_url

MakeRecords = Callable[..., StepRecords]
LOSS = Key(Kind.LOSS, "loss")


@pytest.fixture
def other(make_workshop: Any, make_records: MakeRecords) -> Any:
    """Another run, of three steps."""
    other = make_workshop(store_from_url("memory://another run"), run_id="20260202T000000Z-def")
    other.finished(*(make_records(tick, loss=99.0) for tick in range(3)))
    return other


def test_a_file_of_another_run_is_named_and_not_read(workshop: Any, make_records: MakeRecords, other: Any) -> None:
    workshop.finished(make_records(0, loss=1.0), make_records(1, loss=2.0))
    for name in other.names("records"):
        workshop.store.put(name, bytes(other.store.get(name)))
    run = workshop.run()
    assert run.series(LOSS).values.tolist() == [1.0, 2.0]
    assert [text.partition(" instead")[0] for text in run.damage] == [
        "The file belongs to another run: 20260202T000000Z-def"]
    views = [result := workshop.feed().poll()][0].views
    assert [view.scalar(LOSS) for view in views] == [1.0, 2.0]
    assert any("another run" in text for text in result.damage)
    assert any("another run" in text for text in examine(workshop.store).damaged)


@pytest.mark.parametrize(("word", "changed"), [("records/p1/", "records/p0/"), ("/0000-", "/0001-"),
                                               ("00000002-00000002", "00000003-00000003")])
def test_a_file_that_was_given_another_name_is_named_and_not_read(
    workshop: Any, make_records: MakeRecords, word: str, changed: str
) -> None:
    workshop.claim()
    writers = [workshop.writer(workshop.worker()) for _ in range(2)]
    for tick in range(3):
        workshop.publish(writers[1], make_records(tick, loss=5.0))
    workshop.store.put("attempts/0001.json", bytes(workshop.store.get("attempts/0000.json")))
    name = workshop.names("records")[-1]
    workshop.store.put(name.replace(word, changed), bytes(workshop.store.get(name)))
    workshop.store.delete(name)
    run = workshop.run()
    assert run.steps().tolist() == [0, 1]
    assert "another worker, attempt or chunk" in run.damage[0]


def test_a_file_that_does_not_say_of_which_run_it_is_is_read(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    (name,) = workshop.names("records")
    assert open_published(workshop.store, ChunkName.from_name(name), "").metadata.num_rows == 2
    table = pq.read_table(pa.BufferReader(bytes(workshop.store.get(name))))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_statistics=False)
    data = sink.getvalue().to_pybytes()
    workshop.store.delete(name)
    workshop.store.put(f"{name[:-len('.parquet') - 32]}{digest_of(data)}.parquet", data)
    assert workshop.run().steps().tolist() == [0]
    assert workshop.run().damage == ()


@pytest.mark.parametrize(("column", "word"), [("kind", "momentum"), ("mode", "tuning")])
def test_rows_of_a_kind_or_mode_that_nobody_knows_are_named_and_the_rest_is_read(
    workshop: Any, make_records: MakeRecords, column: str, word: str
) -> None:
    writer = workshop.writer()
    for tick in range(3):
        workshop.publish(writer, make_records(tick))
    name = workshop.names("records")[1]
    table = pq.read_table(pa.BufferReader(bytes(workshop.store.get(name))))
    table = table.set_column(table.column_names.index(column), column, pa.array([word, word]).dictionary_encode())
    data = parquet_bytes(table.cast(SCHEMA), ChunkNotes())
    workshop.store.delete(name)
    workshop.store.put(f"{name[:-len('.parquet') - 32]}{digest_of(data)}.parquet", data)
    run = workshop.run()
    assert run.keys() == [LOSS, Key(Kind.WEIGHT, "fc.weight")]
    assert run.steps(None).tolist() == [0, 2]
    assert [view.step.number for view in workshop.run().views()] == [0, 2]
    assert all(f'unknown {column}, "{word}"' in texts[0] for texts in (run.damage, examine(workshop.store).damaged))


def test_files_made_one_keep_saying_of_which_run_they_are(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, *(make_records(tick) for tick in range(3)))
    workshop.publish(writer, make_records(3))
    writer.close(EndState.FINISHED)
    (name,) = workshop.names("records")
    with pytest.raises(DamagedChunk, match="to another run: 20260101T000000Z-abc instead of other"):
        open_published(workshop.store, ChunkName.from_name(name), "other")


def test_a_chunk_beyond_the_last_is_foreign(workshop: Any, make_records: MakeRecords, make_workshop: Any) -> None:
    workshop.finished(make_records(0))
    twin = make_workshop(store_from_url("memory://a run of the same id"))
    writer = twin.writer()
    for tick in range(3):
        twin.publish(writer, make_records(tick))
    name = twin.names("records")[2]
    workshop.store.put(name, bytes(twin.store.get(name)))
    assert examine(workshop.store).foreign == [
        "The file comes after chunk 0, the last that worker p0 in attempt 0 published. It is not part of the run "
        f"({name})."]
    assert workshop.run().damage == tuple(examine(workshop.store).foreign)
    assert examine(workshop.store).missing == []


def test_of_two_files_of_one_chunk_one_is_read_and_the_other_named(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    for tick, loss in ((0, 1.0), (5, 2.0)):
        workshop.publish(workshop.writer(worker), make_records(tick, loss=loss))
    used, beside = workshop.names("records")
    run, diagnosis, result = workshop.run(), examine(workshop.store), workshop.feed().poll()
    assert run.arrow(columns=["step"]).num_rows == 2
    assert list(run.damage) == list(result.damage) == diagnosis.damaged
    assert [beside in text for text in run.damage] == [True]
    assert (len(result.views), diagnosis.leftover) == (1, [])
    before = run.steps().tolist()
    workshop.store.put(used, b"damaged")
    assert sorted({*before, *workshop.run().steps().tolist()}) == [0, 5]
