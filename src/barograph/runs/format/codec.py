"""Encoding of records as the bytes of a chunk.

Runs in the writer's thread. `events` and `reader` read the files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barograph.errors import DamagedChunk
from barograph.model.key import Key, Kind
from barograph.model.manifest import FORMAT_VERSION
from barograph.model.records import Subject, UnitSummaries
from barograph.model.summary import MOMENT_FIELDS
from barograph.runs.format.merging import means_of_rows
from barograph.runs.format.noted import noted_bytes, notes_in
from barograph.runs.format.pending import NO_POINTS, CompactStep, Points
from barograph.runs.format.schema import COUNTS, SCHEMA, UNIT_LISTS, WRITER_OPTIONS, row_groups

_NONE = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True)
class ChunkNotes:
    """Metadata of a records file.

    Attributes:
        dropped_steps: Steps dropped by this worker in this attempt up to the end of this file.
        dropped_points: Logged numbers dropped up to then.
        run_id: ID of its run; "" if it has none.
        first_steps: Optimizer to the first training step of this worker in this attempt, for those that had started by
            the end of this file; None if the writer does not know the start of the attempt.
    """

    dropped_steps: int = 0
    dropped_points: int = 0
    run_id: str = ""
    first_steps: Mapping[str, int] | None = None


def encode(
    steps: Sequence[CompactStep],
    points: Points = NO_POINTS,
    *,
    worker: str,
    attempt: int,
    chunk: int,
    notes: ChunkNotes | None = None,
) -> bytes:
    """Return the Parquet file of these steps and points, sorted by kind, path and tick.

    Args:
        steps: Steps in order of ticks.
        points: Numbers logged in that time.
        worker, attempt, chunk: Values for every row.
        notes: Metadata for the footer.
    """
    table = _table(steps, points, worker, attempt, chunk)
    return parquet_bytes(table, notes or ChunkNotes())


def parquet_bytes(table: pa.Table, notes: ChunkNotes) -> bytes:
    """Return the bytes of a file with a table of `SCHEMA`."""
    text: dict[str, Any] = {
        "format": FORMAT_VERSION, "dropped_steps": notes.dropped_steps, "dropped_points": notes.dropped_points,
    }
    if notes.run_id:
        text["run_id"] = notes.run_id
    if notes.first_steps is not None:
        text["first_steps"] = dict(notes.first_steps)
    return noted_bytes(row_groups(table), SCHEMA, text, **WRITER_OPTIONS)


def notes_of(metadata: Mapping[bytes, bytes] | None, name: str = "") -> ChunkNotes:
    """Return the metadata that `parquet_bytes` wrote.

    Args:
        metadata: Key-value metadata of a file.
        name: Name of the file, for the message.

    Raises:
        DamagedChunk: The metadata is invalid.
    """
    try:
        text = notes_in(metadata)
        firsts = text.get("first_steps")
        return ChunkNotes(
            int(text.get("dropped_steps", 0)), int(text.get("dropped_points", 0)), str(text.get("run_id", "")),
            None if firsts is None else {str(optimizer): int(step) for optimizer, step in firsts.items()},
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedChunk(f"The metadata of the file is invalid: {error} ({name}).") from error


def merged_notes(notes: Sequence[ChunkNotes]) -> ChunkNotes:
    """Return the metadata of a file merged from files with this metadata."""
    known_firsts = [note.first_steps for note in notes if note.first_steps is not None]
    optimizers = sorted({optimizer for firsts in known_firsts for optimizer in firsts})
    firsts = {name: min(firsts[name] for firsts in known_firsts if name in firsts) for name in optimizers}
    return ChunkNotes(
        max(note.dropped_steps for note in notes), max(note.dropped_points for note in notes),
        next((note.run_id for note in notes if note.run_id), ""), firsts if known_firsts else None,
    )


@dataclass(slots=True)
class _Drafted:
    """The rows of a chunk before they are sorted: moments first, then loose rows, then points.

    A loose row has no moments: a plain number, or a tensor saved without a summary.
    """

    subject_codes: list[NDArray[np.int32]]
    step_codes: list[NDArray[np.intp]]
    loose_values: list[float]
    tensor_rows: list[int]
    moment_rows: int = 0


def _table(steps: Sequence[CompactStep], points: Points, worker: str, attempt: int, chunk: int) -> pa.Table:
    subjects = _Subjects()
    drafted = _draft(steps, subjects)
    moment_rows, point_count = drafted.moment_rows, len(points.points)
    drafted.subject_codes.append(_point_subjects(points, subjects))
    subject_codes = np.concatenate(drafted.subject_codes)
    rows = len(subject_codes)
    ticks = np.concatenate([
        np.array([step.step.tick for step in steps], np.int64)[np.concatenate([*drafted.step_codes, _NONE])],
        points.points["tick"],
    ])
    order = np.lexsort((ticks, _ranks(subjects)[subject_codes]))
    place = np.empty(rows, np.intp)
    place[order] = np.arange(rows)

    moments = np.concatenate([*(step.moments for step in steps), np.empty((0, len(MOMENT_FIELDS)))])
    is_loss = np.array([subject.key.kind == Kind.LOSS for subject in subjects.items], bool)
    losses = np.flatnonzero(is_loss[subject_codes[:moment_rows]])
    loose = np.array(drafted.loose_values, np.float64)
    value = np.zeros(rows)
    has_value = np.zeros(rows, bool)
    value[place[losses]] = means_of_rows(moments[losses])
    has_value[place[losses]] = True
    value[place[moment_rows : moment_rows + len(loose)]] = loose
    value[place[rows - point_count :]] = points.points["value"]
    has_value[place[moment_rows:]] = True
    without = [row for row in drafted.tensor_rows if row >= moment_rows]
    has_value[place[without]] = False
    tensor = np.zeros(rows, bool)
    tensor[place[drafted.tensor_rows]] = True
    position = np.full(rows, -1, np.int32)
    position[place[:moment_rows]] = np.concatenate([*(step.rows for step in steps), _NONE])

    columns = {
        "attempt": pa.array(np.full(rows, attempt, np.int32)),
        "chunk": pa.array(np.full(rows, chunk, np.int64)),
        "worker": _texts([worker], np.zeros(rows, np.int32)),
        "tensor": pa.array(tensor),
        "position": pa.array(position, mask=position < 0),
        "value": pa.array(value, mask=~has_value),
        **_subject_columns(subjects, subject_codes[order]),
        **_step_columns(steps, np.concatenate([*drafted.step_codes, _NONE]), points, order),
        **_moment_columns(moments, place[:moment_rows], rows),
        **_histogram_columns(steps, place, rows),
        **_unit_columns(steps, place, rows),
    }
    return pa.Table.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _draft(steps: Sequence[CompactStep], subjects: _Subjects) -> _Drafted:
    drafted = _Drafted([np.empty(0, np.int32)], [], [], [])
    # By identity: hashing a thousand subjects for each step would cost more than the rest. The
    # steps keep these tuples alive, so identities are unique.
    codes_of_tuple: dict[int, NDArray[np.int32]] = {}
    loose_codes: list[int] = []
    loose_steps: list[int] = []
    loose_tensors: list[int] = []
    for index, step in enumerate(steps):
        codes = codes_of_tuple.get(id(step.subjects))
        if codes is None:
            codes = np.array([subjects.code(subject) for subject in step.subjects], np.int32)
            codes_of_tuple[id(step.subjects)] = codes
        drafted.subject_codes.append(codes[step.rows])
        drafted.step_codes.append(np.full(len(step.rows), index, np.intp))
        seen: set[Key] = set()
        if step.scalars or step.tensors:
            seen = {step.subjects[row].key for row in step.rows.tolist()}
        for row, key in enumerate(step.subjects[row].key for row in step.rows.tolist() if step.tensors):
            if key in step.tensors:
                drafted.tensor_rows.append(drafted.moment_rows + row)
        for key, value in step.scalars.items():
            # A loss with both a summary and a number is one row; its mean is the number.
            if key.kind != Kind.LOSS or key not in seen:
                loose_codes.append(subjects.code(Subject(key)))
                loose_steps.append(index)
                drafted.loose_values.append(value)
        unseen = sorted(step.tensors.keys() - seen)
        # Even without a summary, readers must know whether it is a part of a split tensor.
        known = {subject.key: subject for subject in step.subjects} if unseen else {}
        for key in unseen:
            loose_tensors.append(len(loose_codes))
            loose_codes.append(subjects.code(known.get(key, Subject(key))))
            loose_steps.append(index)
            drafted.loose_values.append(0.0)
        drafted.moment_rows += len(step.rows)
    drafted.tensor_rows.extend(drafted.moment_rows + row for row in loose_tensors)
    drafted.subject_codes.append(np.array(loose_codes, np.int32))
    drafted.step_codes.append(np.array(loose_steps, np.intp))
    return drafted


Item = TypeVar("Item", bound=Hashable)


class _Subjects:
    """Assigns a code to every subject, counting from 0.

    Attributes:
        items: All subjects, by code.
    """

    def __init__(self) -> None:
        self.items: list[Subject] = []
        self._codes: dict[Subject, int] = {}

    def code(self, subject: Subject) -> int:
        """Return the code of a subject, the same each time."""
        code = self._codes.get(subject)
        if code is None:
            code = self._codes[subject] = len(self.items)
            self.items.append(subject)
        return code

    def add(self, subjects: Sequence[Subject]) -> int:
        """Assign new codes to subjects, even if they have some; return the first.

        Two codes for one subject are harmless, because rows are sorted by key. Looking up a hundred thousand would be
        slow.
        """
        self.items += subjects
        return len(self.items) - len(subjects)


def _ranks(subjects: _Subjects) -> NDArray[np.int32]:
    # A key may have several subjects: its type may change, or it may be split from some step on.
    keys = [(subject.key.kind._value_, _text(subject.key.path)) for subject in subjects.items]
    rank_of_key = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([rank_of_key[key] for key in keys], np.int32)


def _point_subjects(points: Points, subjects: _Subjects) -> NDArray[np.int32]:
    # A run may have a hundred thousand series, most of them with a key that no step has.
    keys, of_key = _coded([series.key for series in points.series])
    codes = of_key + subjects.add([Subject(key) for key in keys])
    subject_of_point: NDArray[np.int32] = codes[points.points["series"]]
    return subject_of_point


def _coded(items: Sequence[Item]) -> tuple[list[Item], NDArray[np.int32]]:
    """Return the distinct items in order of first occurrence, and the index of each item."""
    codes: dict[Item, int] = {}
    of_places = np.array([codes.setdefault(item, len(codes)) for item in items], np.int32)
    return list(codes), of_places


def _text(value: str) -> str:
    # Lone surrogates (from file names that are not UTF-8) cannot be written; they become "?".
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _texts(values: Iterable[str], codes: NDArray[np.int32]) -> pa.Array:
    texts = [_text(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts, pa.string()))


def _subject_columns(subjects: _Subjects, codes: NDArray[np.int32]) -> dict[str, pa.Array]:
    columns = {}
    for name, text_of in _SUBJECT_TEXTS.items():
        texts, of_subject = _coded([text_of(subject) for subject in subjects.items])
        columns[name] = _texts(texts, of_subject[codes])
    columns["shard"] = pa.array(np.array([subject.shard for subject in subjects.items], bool)[codes])
    whole = np.array([subject.whole for subject in subjects.items], np.int64)[codes]
    columns["whole"] = pa.array(whole, mask=whole == 0)
    return columns


_SUBJECT_TEXTS: Mapping[str, Callable[[Subject], str]] = {
    "kind": lambda subject: subject.key.kind._value_,
    "path": lambda subject: subject.key.path,
    "layer": lambda subject: subject.layer,
    "dtype": lambda subject: subject.dtype,
}


def _step_columns(
    steps: Sequence[CompactStep], step_codes: NDArray[np.intp], points: Points, order: NDArray[np.intp]
) -> dict[str, pa.Array]:
    logged = points.points
    series = logged["series"]
    modes, mode_of = _coded(
        [*(item.mode._value_ for item in points.series), *(step.step.mode._value_ for step in steps)])
    optimizers, optimizer_of = _coded(
        ["", *(item.optimizer for item in points.series), *(step.step.optimizer for step in steps)])
    optimizer_of = optimizer_of[1:]
    count = len(points.series)
    is_logged = np.array([item.logged for item in points.series], bool)

    def column(of_step: Sequence[float] | NDArray[Any], of_point: NDArray[Any], dtype: str) -> NDArray[Any]:
        joined: NDArray[Any] = np.concatenate([np.array(of_step, dtype)[step_codes], of_point.astype(dtype)])[order]
        return joined

    optimizer = column(optimizer_of[count:], optimizer_of[:count][series], "i4")
    mode = column(mode_of[count:], mode_of[:count][series], "i4")
    time = column([round(step.step.time_unix * 1e6) for step in steps], np.rint(logged["time"] * 1e6), "i8")
    is_point = column([False] * len(steps), is_logged[series], "bool")
    skipped = column([step.step.skipped for step in steps], np.zeros(len(logged)), "bool")
    return {
        "tick": pa.array(column([step.step.tick for step in steps], logged["tick"], "i8")),
        "step": pa.array(column([step.step.number for step in steps], logged["step"], "i8")),
        "optimizer": _texts(optimizers, optimizer),
        "mode": _texts(modes, mode),
        # Null distinguishes a logged number from the record of a step.
        "skipped": pa.array(skipped, mask=is_point),
        "time": pa.array(time).cast(SCHEMA.field("time").type),
    }


def _moment_columns(moments: NDArray[np.float64], place: NDArray[np.intp], rows: int) -> dict[str, pa.Array]:
    if not len(moments):
        return {name: pa.nulls(rows, SCHEMA.field(name).type) for name in MOMENT_FIELDS}
    absent = np.ones(rows, bool)
    absent[place] = False
    columns = {}
    for index, name in enumerate(MOMENT_FIELDS):
        values = np.zeros(rows, np.int64 if name in COUNTS else np.float64)
        values[place] = moments[:, index]
        columns[name] = pa.array(values, mask=absent)
    return columns


def _histogram_columns(steps: Sequence[CompactStep], place: NDArray[np.intp], rows: int) -> dict[str, pa.Array]:
    names = ("exponents", "exponent_counts")
    if not any(len(step.bins) for step in steps):
        return {name: pa.nulls(rows, SCHEMA.field(name).type) for name in names}
    starts = np.cumsum([0, *(len(step.rows) for step in steps)])
    at = place[np.concatenate([step.bin_rows + start for step, start in zip(steps, starts, strict=False)])]
    order = np.argsort(at, kind="stable")
    lengths = np.bincount(at, minlength=rows)
    bins = np.concatenate([step.bins for step in steps])[order]
    counts = np.concatenate([step.bin_counts for step in steps])[order]
    return {name: _lists(name, values, lengths) for name, values in zip(names, (bins, counts), strict=True)}


def _unit_columns(steps: Sequence[CompactStep], place: NDArray[np.intp], rows: int) -> dict[str, pa.Array]:
    found: dict[int, UnitSummaries] = {}
    start = 0
    for step in steps:
        if step.units:
            of_subject = {row: index for index, row in enumerate(step.rows.tolist())}
            found.update((int(place[start + of_subject[row]]), units) for row, units in step.units.items())
        start += len(step.rows)
    names = ("unit_count", "unit_bound", *UNIT_LISTS)
    if not found:
        return {name: pa.nulls(rows, SCHEMA.field(name).type) for name in names}
    lengths = np.zeros(rows, np.int64)
    absent = np.ones(rows, bool)
    counts = np.zeros(rows, np.int64)
    bounds = np.zeros(rows)
    for row, units in found.items():
        lengths[row], absent[row], counts[row], bounds[row] = len(units.columns), False, units.count, units.bound
    values = np.concatenate([found[row].columns for row in sorted(found)])
    lists = {name: _lists(name, values[:, index], lengths) for index, name in enumerate(UNIT_LISTS)}
    return {"unit_count": pa.array(counts, mask=absent), "unit_bound": pa.array(bounds, mask=absent), **lists}


def _lists(name: str, values: NDArray[Any], lengths: NDArray[np.int64]) -> pa.Array:
    kind = SCHEMA.field(name).type
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    elements = pa.array(np.ascontiguousarray(values), kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=kind, mask=pa.array(lengths == 0))
