"""Decoding of chunks into steps: one event for each step that a worker recorded."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from barograph.errors import DamagedChunk
from barograph.model.key import Key, Kind
from barograph.model.records import Subject, UnitSummaries
from barograph.model.step import Mode, Step
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS
from barograph.runs.format.rows import SubjectTable, WorkerRows
from barograph.runs.format.schema import SCHEMA, TEXTS, UNIT_LISTS
from barograph.runs.format.sound import check_columns, check_sizes

_COUNT = MOMENT_FIELDS.index("count")
_SCRIPT, _MACHINE, _STEP = range(3)
"""Origin of a row, in sort order within a tick."""


@dataclass(frozen=True, slots=True)
class StepEvent:
    """Records of one worker in one step, or numbers logged for one.

    Attributes:
        chunk: Sequence number of the chunk in which it was first published.
        step: The step.
        logged: It has only numbers that the script logged, or machine metrics.
        rows: The records.
        of_machine: It has machine metrics, which belong to no step.
    """

    chunk: int
    step: Step
    logged: bool
    rows: WorkerRows
    of_machine: bool = False


_PIECE_ROWS = 4096

TABLES_KEPT = 64
"""Number of cached sets of subjects: those of the workers and schedules of a run. If nearly every step has its
own set (parameters used at random), caching all would exhaust memory."""


SUBJECTS_KEPT = 2**17
"""Number of cached subjects; with more, the cache is cleared now and then."""


class SubjectTables:
    """Cache of one `SubjectTable` for steps that share their subjects, and one `Subject` for all chunks."""

    def __init__(self) -> None:
        self._tables: dict[tuple[Subject, ...], SubjectTable] = {}
        self._subjects: dict[tuple[str, str, str, str, bool, int], Subject] = {}

    def subject(self, kind: str, path: str, layer: str, dtype: str, shard: bool, whole: int) -> Subject:
        """Return the subject with these values of columns."""
        description = (kind, path, layer, dtype, shard, whole)
        known = self._subjects.get(description)
        if known is None:
            if len(self._subjects) >= SUBJECTS_KEPT:
                self._subjects.clear()
            known = self._subjects[description] = Subject(Key(Kind(kind), path), layer, dtype, shard, whole)
        return known

    def table(self, subjects: tuple[Subject, ...]) -> SubjectTable:
        """Return the table of these subjects, cached."""
        table = self._tables.pop(subjects, None) or SubjectTable(subjects)
        self._tables[subjects] = table  # the most recently used is last
        if len(self._tables) > TABLES_KEPT:
            del self._tables[next(iter(self._tables))]
        return table


def open_records(data: bytes | memoryview, name: str) -> pq.ParquetFile:
    """Open a records file with all columns of `SCHEMA`.

    Raises:
        DamagedChunk: It is not a Parquet file of Barograph.
    """
    try:
        source = pa.BufferReader(pa.py_buffer(data))
        footer = pq.read_metadata(source)
        missing = set(SCHEMA.names) - set(footer.schema.to_arrow_schema().names)
        if missing:
            raise DamagedChunk(f"The file lacks the columns {', '.join(sorted(missing))} ({name}).")
        check_sizes(footer, len(data), name)
        file = pq.ParquetFile(source, metadata=footer, read_dictionary=list(TEXTS))
        check_columns(file, SCHEMA, name)
        return file
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DamagedChunk(f"The file cannot be read as Parquet: {error} ({name}).") from error


def read_table(data: bytes | memoryview, name: str) -> pa.Table:
    """Return all rows of a records file; raises as `open_records`."""
    return all_rows(open_records(data, name), name)


def all_rows(file: pq.ParquetFile, name: str) -> pa.Table:
    """Return all rows of an opened records file; raises as `open_records`."""
    try:
        table = file.read(columns=SCHEMA.names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DamagedChunk(f"The file cannot be read as Parquet: {error} ({name}).") from error
    table = table.unify_dictionaries().combine_chunks()
    _check_lists(table, UNIT_LISTS, name)
    _check_bins(table, name)
    return table


def events_of(table: pa.Table, tables: SubjectTables) -> list[StepEvent]:
    """Return the steps in a table in order of time.

    Numbers logged for the step before or after, in the same chunk, are part of it; others are separate
    events. Merging files does not change chunks, so this is stable.

    Args:
        table: All columns of `SCHEMA`, of one worker and attempt.
        tables: Cache shared by all calls.
    """
    if not table.num_rows:
        return []
    events: list[StepEvent] = []
    waiting: list[StepEvent] = []
    for event in _Rows(table, tables).groups():
        if waiting and (waiting[0].chunk, waiting[0].step.tick) != (event.chunk, event.step.tick):
            events.extend(waiting)
            waiting.clear()
        if event.logged:
            if events and _is_for(event, events[-1]):
                events[-1] = _with_scalars(events[-1], event.rows.scalars)
            else:
                waiting.append(event)
            continue
        for logged in waiting:
            if _is_for(logged, event):
                event = _with_scalars(event, logged.rows.scalars)
            else:
                events.append(logged)
        waiting.clear()
        events.append(event)
    return [*events, *waiting]


def _code(texts: Sequence[str], kind: Kind) -> int:
    """Return the code of a kind in a column; -1, which no row has, if it is missing."""
    return texts.index(kind.value) if kind.value in texts else -1


def _is_for(logged: StepEvent, event: StepEvent) -> bool:
    same_step = (logged.step.mode, logged.step.number) == (event.step.mode, event.step.number)
    return same_step and not event.logged and not logged.of_machine and logged.chunk == event.chunk


def _with_scalars(event: StepEvent, scalars: Mapping[Key, float]) -> StepEvent:
    return replace(event, rows=replace(event.rows, scalars={**scalars, **event.rows.scalars}))


class _Rows:
    """The columns of a table as arrays, and the order of its rows by chunk, tick and step."""

    def __init__(self, table: pa.Table, tables: SubjectTables) -> None:
        self._tables = tables
        is_point = table["skipped"].is_null().to_numpy()
        kinds = dictionary_column(table, "kind")
        source = np.where(is_point, np.where(kinds.codes == _code(kinds.texts, Kind.MACHINE), _MACHINE, _SCRIPT), _STEP)
        modes = dictionary_column(table, "mode")
        chunk, tick, step = (table[name].to_numpy() for name in ("chunk", "tick", "step"))
        # Within a step, in the order in which the worker recorded the subjects: the order of layers.
        position = table["position"].fill_null(np.iinfo(np.int32).max).to_numpy()
        order = np.lexsort((position, step, modes.codes, source, tick, chunk))
        self._order = order
        self._chunk, self._tick, self._step, self._source, self._mode = chunk, tick, step, source, modes.codes
        self._modes = [Mode(text) for text in modes.texts]
        optimizers = dictionary_column(table, "optimizer")
        self._optimizer, self._optimizers = optimizers.codes, optimizers.texts
        self._skipped = table["skipped"].fill_null(False).to_numpy()
        self._time = table["time"].cast(pa.int64()).to_numpy()
        self._subjects, self._subject = _subjects(table, tables)
        self._moments = _moments(table)
        self._seen = self._moments[:, _COUNT] > 0
        self._value = table["value"].fill_null(0.0).to_numpy()
        self._has_value = table["value"].is_valid().to_numpy()
        self._tensor = table["tensor"].to_numpy()
        self._histograms = _Histograms(table)
        self._units = _UnitColumns(table)
        self._table_of_codes: dict[bytes, SubjectTable] = {}

    def groups(self) -> Iterator[StepEvent]:
        """Yield one event for each group of rows of one step."""
        of_step = (self._chunk, self._tick, self._source, self._mode, self._step)
        starts = _stretches(column.take(self._order) for column in of_step)
        for start, stop in itertools.pairwise((*starts.tolist(), len(self._order))):
            yield self._event(self._order[start:stop])

    def _event(self, rows: NDArray[np.intp]) -> StepEvent:
        first = rows[0]  # each row has the columns of its step
        step = Step(
            tick=int(self._tick[first]), number=int(self._step[first]),
            optimizer=self._optimizers[self._optimizer[first]], mode=self._modes[self._mode[first]],
            time_unix=int(self._time[first]) / 1e6, skipped=bool(self._skipped[first]),
        )
        seen = rows[self._seen.take(rows)]
        recorded = WorkerRows(
            table=self._table(self._subject.take(seen)),
            moments=self._moments.take(seen, axis=0),
            histograms=self._histograms.maker(seen),
            units=self._units.mapping(seen),
            scalars=self._scalars(rows),
            tensors=self._saved(rows),
        )
        source = int(self._source[first])
        return StepEvent(int(self._chunk[first]), step, source != _STEP, recorded, of_machine=source == _MACHINE)

    def _scalars(self, rows: NDArray[np.intp]) -> dict[Key, float]:
        at = rows[self._has_value.take(rows)]
        keys = (self._subjects[code].key for code in self._subject[at].tolist())
        return dict(zip(keys, self._value[at].tolist(), strict=True))

    def _saved(self, rows: NDArray[np.intp]) -> frozenset[Key]:
        at = rows[self._tensor.take(rows)]
        return frozenset(self._subjects[code].key for code in self._subject[at].tolist())

    def _table(self, codes: NDArray[np.intp]) -> SubjectTable:
        identity = codes.tobytes()
        known = self._table_of_codes.get(identity)
        if known is None:
            known = self._tables.table(tuple(self._subjects[code] for code in codes.tolist()))
            self._table_of_codes[identity] = known
        return known


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """A dictionary-encoded column of strings.

    Attributes:
        codes: Index of the string of each row.
        texts: All strings.
    """

    codes: NDArray[np.int64]
    texts: list[str]

    def ranks(self) -> NDArray[np.int64]:
        """Return the rank of each string in sorted order."""
        ranks = np.empty(len(self.texts), np.int64)
        ranks[sorted(range(len(self.texts)), key=self.texts.__getitem__)] = np.arange(len(self.texts))
        return ranks


def dictionary_column(table: pa.Table, name: str) -> DictionaryColumn:
    """Return one of the columns `TEXTS` of a table whose dictionaries are unified."""
    column = _chunk_of(table, name)
    return DictionaryColumn(column.indices.to_numpy().astype(np.int64), column.dictionary.to_pylist())


def _subjects(table: pa.Table, tables: SubjectTables) -> tuple[list[Subject], NDArray[np.intp]]:
    """Return the distinct subjects in a table, and the index of the subject of each row."""
    parts = [dictionary_column(table, name) for name in ("kind", "path", "layer", "dtype")]
    shard = table["shard"].to_numpy().astype(np.int64)
    whole = table["whole"].fill_null(0).to_numpy()
    # Rows are sorted by subject, so few differ from the row before.
    starts = _stretches((shard, whole, *(part.codes for part in parts)))
    combined = np.unique(2 * whole[starts] + shard[starts], return_inverse=True)[1]
    for part in parts:
        combined = combined * len(part.texts) + part.codes[starts]
    _, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    rows = starts[first]
    texts = [[part.texts[code] for code in part.codes[rows].tolist()] for part in parts]
    subjects = list(map(tables.subject, *texts, shard[rows].astype(bool).tolist(), whole[rows].tolist()))
    return subjects, np.repeat(codes, np.diff(starts, append=table.num_rows))


def _stretches(columns: Iterable[NDArray[Any]]) -> NDArray[np.intp]:
    """Return the first row of each run of rows with equal columns; there is at least one row."""
    changes: Any = False
    for column in columns:
        changes = changes | (column[1:] != column[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def _moments(table: pa.Table) -> NDArray[np.float64]:
    """Return the moments of all rows, shape (rows, 10)."""
    columns = {
        index: table[name].fill_null(0).to_numpy()
        for index, name in enumerate(MOMENT_FIELDS) if table[name].null_count < table.num_rows
    }
    moments = np.zeros((table.num_rows, len(MOMENT_FIELDS)))
    # In pieces, so that the target of ten columns stays in the CPU cache.
    for start in range(0, table.num_rows, _PIECE_ROWS):
        piece = slice(start, start + _PIECE_ROWS)
        for index, column in columns.items():
            moments[piece, index] = column[piece]
    return moments


class _Histograms:
    """The nonempty bins of all rows of a table."""

    def __init__(self, table: pa.Table) -> None:
        self._offsets = _offsets(table, "exponents")
        self._bins, self._counts = (_elements(table, name) for name in ("exponents", "exponent_counts"))
        _check_bins(table)

    def maker(self, rows: NDArray[np.intp]) -> Any:
        return lambda: self._dense(rows)

    def _dense(self, rows: NDArray[np.intp]) -> NDArray[np.int64] | None:
        starts = self._offsets[rows]
        lengths = self._offsets[rows + 1] - starts
        if not lengths.sum():
            return None
        dense = np.zeros((len(rows), EXPONENT_BINS), np.int64)
        into = np.repeat(np.arange(len(rows)), lengths)
        at = np.arange(lengths.sum()) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        dense[into, self._bins[at]] = self._counts[at]
        return dense


class _UnitColumns:
    """The per-unit summaries of all rows of a table."""

    def __init__(self, table: pa.Table) -> None:
        self._has = table["unit_count"].is_valid().to_numpy()
        self._any = bool(self._has.any())
        if self._any:
            self._counts = table["unit_count"].fill_null(0).to_numpy()
            self._bounds = table["unit_bound"].fill_null(0.0).to_numpy()
            _check_lists(table, UNIT_LISTS)
            self._offsets = _offsets(table, UNIT_LISTS[0])
            self._values = np.stack([_elements(table, name) for name in UNIT_LISTS], axis=1)

    def mapping(self, rows: NDArray[np.intp]) -> Mapping[int, UnitSummaries]:
        if not self._any:
            return {}
        return {index: self._units(int(rows[index])) for index in np.flatnonzero(self._has[rows]).tolist()}

    def _units(self, row: int) -> UnitSummaries:
        columns = self._values[self._offsets[row] : self._offsets[row + 1]]
        return UnitSummaries(int(self._counts[row]), columns, float(self._bounds[row]))


def _check_bins(table: pa.Table, file: str = "a file of records") -> None:
    """Raise DamagedChunk if a histogram has an invalid bin or count."""
    _check_lists(table, ("exponents", "exponent_counts"), file)
    bins = _elements(table, "exponents")
    if len(bins) and bins.max() >= EXPONENT_BINS:
        raise DamagedChunk(f"A histogram has the bin {bins.max()}; there are {EXPONENT_BINS} ({file}).")


def _check_lists(table: pa.Table, names: Sequence[str], file: str = "a file of records") -> None:
    """Raise DamagedChunk if related lists have different lengths."""
    first, *others = (_chunk_of(table, name).value_lengths().fill_null(0) for name in names)
    if not all(lengths.equals(first) for lengths in others):
        raise DamagedChunk(f"The lists in the columns {', '.join(names)} have different lengths ({file}).")


def _offsets(table: pa.Table, name: str) -> NDArray[np.int64]:
    """Return the start of the elements of each row of a list column, and the end of the last."""
    # A null list may cover elements, which `flatten` leaves out, so offsets are computed from the lengths.
    lengths = _chunk_of(table, name).value_lengths().fill_null(0).to_numpy()
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _elements(table: pa.Table, name: str) -> NDArray[Any]:
    """Return the elements of all rows of a list column."""
    elements: NDArray[Any] = _chunk_of(table, name).flatten().to_numpy()
    return elements


def _chunk_of(table: pa.Table, name: str) -> Any:
    column = table[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
