"""A chunk holds what was recorded, bit for bit, and says it in one schema."""

from __future__ import annotations

import io
import math
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barograph.errors import DamagedChunk
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.key import Key, Kind
from barograph.model.records import StepRecords, Subject, UnitSummaries
from barograph.model.step import Mode, Step
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS
from barograph.runs.format import events as events_module
from barograph.runs.format.codec import ChunkNotes, encode, notes_of
from barograph.runs.format.events import TABLES_KEPT, StepEvent, SubjectTables, events_of, open_records, read_table
from barograph.runs.format.pending import compact
from barograph.runs.format.schema import SCHEMA, SMALL_ROW_GROUP_ROWS
from barograph.runs.writing.inbox import Inbox

RNG_SEED = 20261120


def chunk(*steps: StepRecords, inbox: Inbox | None = None) -> bytes:
    points = inbox.take()[1] if inbox else Inbox(1).take()[1]
    return encode([compact(step) for step in steps], points, worker="p0", attempt=1, chunk=5, notes=ChunkNotes(3, 4))


def events(data: bytes) -> list[StepEvent]:
    return events_of(read_table(data, "a chunk"), SubjectTables())


def random_records(tick: int, subjects: tuple[Subject, ...], rng: np.random.Generator) -> StepRecords:
    moments = rng.normal(size=(len(subjects), len(MOMENT_FIELDS)))
    moments[:, :5] = rng.integers(1, 2**53, size=(len(subjects), 5))
    exponents = rng.integers(0, 3, size=(len(subjects), EXPONENT_BINS)) * rng.integers(0, 2**40)
    return StepRecords(Step(tick, tick * 10, time_unix=1_800_000_000.25 + tick), subjects, moments, exponents)


def test_random_steps_come_back_bit_for_bit() -> None:
    rng = np.random.default_rng(RNG_SEED)
    kinds = [Kind.WEIGHT, Kind.GRADIENT, Kind.OUTPUT]
    subjects = tuple(
        Subject(Key(kinds[index % 3], f"block.{index}"), "Linear" * (index % 2), "float32", shard=index % 4 == 0)
        for index in range(17)
    )
    steps = [random_records(tick, subjects, rng) for tick in range(6)]
    back = events(chunk(*steps))
    assert [event.step for event in back] == [step.step for step in steps]
    for event, step in zip(back, steps, strict=True):
        rows = [event.rows.table.row_of_key[subject.key] for subject in subjects]
        assert tuple(event.rows.table.subjects[row] for row in rows) == subjects
        np.testing.assert_array_equal(event.rows.moments[rows], step.moments)
        histograms = event.rows.histograms()
        assert histograms is not None
        np.testing.assert_array_equal(histograms[rows], step.exponents)


def test_steps_are_the_same_whatever_order_their_rows_stand_in() -> None:
    rng = np.random.default_rng(RNG_SEED)
    subjects = tuple(Subject(Key(Kind.WEIGHT, f"block.{index}"), shard=index % 4 == 0) for index in range(100))
    steps = [random_records(tick, subjects, rng) for tick in range(100)]
    table = read_table(chunk(*steps), "a chunk")
    shuffled = table.take(rng.permutation(table.num_rows)).unify_dictionaries().combine_chunks()
    for order in (table, shuffled):
        back = events_of(order, SubjectTables())
        assert [event.step for event in back] == [step.step for step in steps]
        for event, step in zip(back, steps, strict=True):
            assert set(event.rows.table.subjects) == set(subjects)
            rows = [event.rows.table.row_of_key[subject.key] for subject in subjects]
            np.testing.assert_array_equal(event.rows.moments[rows], step.moments)


def test_what_was_not_seen_is_not_stored() -> None:
    subjects = (Subject(Key(Kind.WEIGHT, "seen")), Subject(Key(Kind.WEIGHT, "unseen")))
    moments = np.zeros((2, len(MOMENT_FIELDS)))
    moments[0, 0] = 3
    back = events(chunk(StepRecords(Step(0, 0), subjects, moments)))
    assert [subject.key.path for subject in back[0].rows.table.subjects] == ["seen"]
    assert back[0].rows.histograms() is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, 5e-324, 1.7976931348623157e308, -0.0])
def test_every_number_survives(value: float) -> None:
    key = Key(Kind.LEARNING_RATE, "group0")
    inbox = Inbox(10_000)
    inbox.log("number", value, 2, Mode.TRAIN, 1.0)
    logged, recorded = events(chunk(StepRecords(Step(0, 0), scalars={key: value}), inbox=inbox))
    for read in (recorded.rows.scalars[key], logged.rows.scalars[Key(Kind.SCALAR, "number")]):
        assert np.float64(read).tobytes() == np.float64(value).tobytes()


def test_a_summary_without_finite_elements_survives() -> None:
    moments, _ = row_from_summary(summarize(np.array([np.nan, np.inf])))
    back = events(chunk(StepRecords(Step(0, 0), (Subject(Key(Kind.WEIGHT, "w")),), moments[np.newaxis])))
    np.testing.assert_array_equal(back[0].rows.moments[0], moments)
    assert back[0].rows.moments[0].tolist() == [2, 1, 1, 0, 0, math.inf, -math.inf, 0, 0, 0]


def test_per_unit_summaries_come_back() -> None:
    units = UnitSummaries(9, np.arange(21.0).reshape(3, 7) * np.pi, bound=8.75)
    moments = np.ones((2, len(MOMENT_FIELDS)))
    subjects = (Subject(Key(Kind.WEIGHT, "w")), Subject(Key(Kind.OUTPUT, "relu")))
    back = events(chunk(StepRecords(Step(0, 0), subjects, moments, units={1: units})))[0].rows
    assert list(back.units) == [back.table.row_of_key[subjects[1].key]]
    (read,) = back.units.values()
    assert (read.count, read.bound) == (9, 8.75)
    np.testing.assert_array_equal(read.columns, units.columns)


def test_a_unit_bound_that_was_not_asked_for_is_nan() -> None:
    units = UnitSummaries(1, np.ones((1, 7)))
    records = StepRecords(Step(0, 0), (Subject(Key(Kind.OUTPUT, "o")),), np.ones((1, 10)), units={0: units})
    (read,) = events(chunk(records))[0].rows.units.values()
    assert math.isnan(read.bound)


@pytest.mark.parametrize(
    ("losses", "mean"),
    [
        ([1.0, 3.0], 2.0), ([1.0, math.inf], math.inf), ([1.0, math.nan], math.nan),
        ([math.inf, -math.inf], math.nan), ([-math.inf, 2.0], -math.inf),
    ],
)
def test_a_loss_over_micro_batches_has_their_mean_as_value(losses: list[float], mean: float) -> None:
    key = Key(Kind.LOSS, "loss")
    moments, _ = row_from_summary(summarize(np.array(losses)))
    data = chunk(StepRecords(Step(0, 0), (Subject(key),), moments[np.newaxis], scalars={key: 99.0}))
    assert read_table(data, "a chunk").num_rows == 1
    np.testing.assert_equal(events(data)[0].rows.scalars[key], mean)


def test_what_is_known_of_a_step_comes_back() -> None:
    step = Step(7, 3, "generator", Mode.EVAL, time_unix=1_800_000_000.123456, skipped=True)
    (back,) = events(chunk(StepRecords(step, scalars={Key(Kind.LEARNING_RATE, "lr"): 0.1})))
    assert back.step == step
    assert (back.chunk, back.logged) == (5, False)


def test_numbers_logged_for_a_step_are_part_of_it() -> None:
    inbox = Inbox(10_000)
    inbox.log("before", 1.0, 0, Mode.TRAIN, 1.0)
    inbox.put(StepRecords(Step(0, 0)))
    inbox.log("after", 2.0, 0, Mode.TRAIN, 1.0)
    (back,) = events(chunk(StepRecords(Step(0, 0), scalars={Key(Kind.LEARNING_RATE, "lr"): 0.1}), inbox=inbox))
    assert {key.path for key in back.rows.scalars} == {"lr", "before", "after"}


def test_numbers_logged_for_another_step_stand_alone_in_order() -> None:
    inbox = Inbox(10_000)
    inbox.log("accuracy", 0.5, 3, Mode.EVAL, 1.0)
    inbox.log("accuracy", 0.25, 2, Mode.TRAIN, 1.0)
    inbox.put(StepRecords(Step(0, 0)))
    inbox.log("accuracy", 0.75, 9, Mode.TRAIN, 1.0)
    back = events(chunk(StepRecords(Step(0, 0), scalars={Key(Kind.LEARNING_RATE, "lr"): 0.1}), inbox=inbox))
    assert [(event.logged, event.step.mode, event.step.number) for event in back] == [
        (True, Mode.EVAL, 3), (True, Mode.TRAIN, 2), (False, Mode.TRAIN, 0), (True, Mode.TRAIN, 9)]


def test_a_name_that_is_not_unicode_is_written_readably() -> None:
    inbox = Inbox(10_000)
    inbox.log("größe \udcff", 1.0, 0, Mode.TRAIN, 1.0)
    (back,) = events(chunk(inbox=inbox))
    assert list(back.rows.scalars) == [Key(Kind.SCALAR, "größe ?")]


def subjects_named(*paths: str) -> tuple[Subject, ...]:
    return tuple(Subject(Key(Kind.WEIGHT, path)) for path in paths)


def test_steps_with_the_same_subjects_share_a_table() -> None:
    tables = SubjectTables()
    assert tables.table(subjects_named("a", "b")) is tables.table(subjects_named("a", "b"))
    assert tables.table(subjects_named("a")) is not tables.table(subjects_named("b"))


def test_subjects_that_change_from_step_to_step_are_not_remembered_for_ever() -> None:
    tables = SubjectTables()
    kept = tables.table(subjects_named("in every step"))
    passing = [weakref.ref(tables.table(subjects_named(f"at random {number}"))) for number in range(60)]
    for number in range(1000):
        passing.append(weakref.ref(tables.table(subjects_named(f"later {number}"))))
        assert tables.table(subjects_named("in every step")) is kept
    assert sum(reference() is not None for reference in passing) < TABLES_KEPT


def test_a_subject_is_made_once_for_all_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = SubjectTables()
    named = ("weight", "a.weight", "Linear", "float32", False, 0)
    first = tables.subject(*named)
    assert first == Subject(Key(Kind.WEIGHT, "a.weight"), "Linear", "float32")
    assert tables.subject(*named) is first
    assert tables.subject("weight", "a.weight", "Linear", "float32", True, 64) == Subject(
        Key(Kind.WEIGHT, "a.weight"), "Linear", "float32", shard=True, whole=64)
    monkeypatch.setattr(events_module, "SUBJECTS_KEPT", 10)
    for number in range(100):
        tables.subject("weight", f"{number}", "", "", False, 0)
        assert len(tables._subjects) <= 10


def test_every_chunk_has_the_one_schema() -> None:
    empty = pq.read_schema(io.BytesIO(chunk(StepRecords(Step(0, 0), scalars={Key(Kind.SCALAR, "x"): 1.0}))))
    rng = np.random.default_rng(RNG_SEED)
    full = pq.read_schema(io.BytesIO(chunk(random_records(0, (Subject(Key(Kind.WEIGHT, "w")),), rng))))
    assert empty.equals(full)
    assert full.names == SCHEMA.names


def test_rows_are_sorted_by_kind_path_and_tick() -> None:
    rng = np.random.default_rng(RNG_SEED)
    subjects = tuple(Subject(Key(kind, path)) for kind in (Kind.WEIGHT, Kind.GRADIENT) for path in "cab")
    table = read_table(chunk(*(random_records(tick, subjects, rng) for tick in range(3))), "a chunk")
    rows = [(row["kind"], row["path"], row["tick"]) for row in table.select(["kind", "path", "tick"]).to_pylist()]
    assert rows == sorted(rows)


def test_rows_of_one_key_are_in_order_whatever_else_changes_and_however_they_came() -> None:
    fc = Key(Kind.OUTPUT, "fc")
    of_type = [Subject(fc, "Linear", dtype) for dtype in ("float32", "bfloat16")]
    rng = np.random.default_rng(RNG_SEED)
    steps = [random_records(tick, (of_type[tick % 2],), rng) for tick in (0, 1, 3, 4)]
    saved = StepRecords(Step(2, 2), scalars={fc: 1.0, Key(Kind.SCALAR, "b"): 1.0})
    inbox = Inbox(10_000)
    inbox.put_numbers(Step(5, 5), {fc: 2.0})
    inbox.log("a", 1.0, 0, Mode.TRAIN, 0.0)
    table = read_table(chunk(*steps, saved, StepRecords(Step(6, 6), scalars={fc: 3.0}), inbox=inbox), "a chunk")
    rows = [(row["path"], row["tick"]) for row in table.select(["path", "tick"]).to_pylist()]
    assert rows == [*(("fc", tick) for tick in range(7)), ("a", 6), ("b", 2)]


def test_a_chunk_says_what_was_dropped_before_it() -> None:
    footer = pq.read_metadata(io.BytesIO(chunk(StepRecords(Step(0, 0)))))
    assert notes_of(footer.metadata) == ChunkNotes(3, 4)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not a parquet file at all"])
def test_what_is_no_parquet_is_damaged(data: bytes) -> None:
    with pytest.raises(DamagedChunk, match="records/p0"):
        read_table(data, "records/p0/x.parquet")


def test_a_foreign_parquet_file_is_damaged() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), sink)
    with pytest.raises(DamagedChunk, match="lacks the columns"):
        read_table(sink.getvalue(), "records/p0/x.parquet")


def test_a_file_of_many_names_has_small_row_groups_each_with_its_own_names() -> None:
    names, points = 5000, 4
    inbox = Inbox(2**23)
    for step in range(points):
        for number in range(names):
            inbox.log(f"n{number:04d}", number + step / 8, step, Mode.TRAIN, 1.0)
    data = chunk(inbox=inbox)

    file = open_records(data, "a chunk")

    rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    assert rows == [SMALL_ROW_GROUP_ROWS, names * points - SMALL_ROW_GROUP_ROWS]
    # To find one name is to read those of its group; in the second there are but these.
    paths = file.read_row_group(1, columns=["path"])["path"].unify_dictionaries().chunk(0).dictionary
    assert len(paths) == -(-rows[1] // points)
    table = read_table(data, "a chunk")
    assert table["path"].to_pylist() == [f"n{number:04d}" for number in range(names) for _ in range(points)]
    assert table["value"].to_pylist() == [number + step / 8 for number in range(names) for step in range(points)]
    assert [len(name) for name in (table["kind"].unique(), table["worker"].unique())] == [1, 1]


def test_a_file_of_few_names_is_one_row_group() -> None:
    inbox = Inbox(2**23)
    for step in range(20_000):
        inbox.log("loss", 1.0, step, Mode.TRAIN, 1.0)

    assert open_records(chunk(inbox=inbox), "a chunk").num_row_groups == 1
