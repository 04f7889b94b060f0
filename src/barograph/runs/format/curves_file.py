"""Bucket files: the plain numbers of a large records file, reduced, so that a curve is one small read.

A bucket file is an index. If it is missing or damaged, the records are read instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from barograph.errors import DamagedChunk
from barograph.measures.buckets import BUCKET, Buckets, buckets_of_points, sensible_buckets
from barograph.model.key import Kind
from barograph.model.manifest import FORMAT_VERSION
from barograph.model.step import Mode
from barograph.runs.format.events import DictionaryColumn, dictionary_column
from barograph.runs.format.layout import ChunkName, CurvesName, digest_of
from barograph.runs.format.noted import noted_bytes, read_noted
from barograph.store.base import Store

PLAIN_KINDS = frozenset({Kind.LOSS, Kind.LEARNING_RATE, Kind.SCALAR, Kind.TIME, Kind.MACHINE})
"""Kinds with plain numbers, which form series for charts."""

BUCKET_POINTS = 64
"""Points of the smallest bucket; larger ones have 2, 4, 8 … times as many."""

MOST_BUCKETS = 512
"""Maximum number of buckets of one series in one file."""

WORTHWHILE_POINTS = 4096
"""Minimum number of plain numbers in a records file for a bucket file."""

RECORD_COLUMNS = ("kind", "path", "mode", "optimizer", "step", "time", "value")
"""Columns of records that buckets are computed from."""

_TEXTS = ("kind", "path", "mode", "optimizer")

Found = TypeVar("Found")


class SeriesName(NamedTuple):
    """The series of a plain number."""

    kind: str
    path: str
    mode: str
    optimizer: str


@dataclass(frozen=True, slots=True)
class SeriesBuckets:
    """Buckets of several series.

    Attributes:
        names: The series.
        codes: Index of the series of each bucket; buckets of one series are in order of their points.
        buckets: Array of `BUCKET`.
    """

    names: Sequence[SeriesName]
    codes: NDArray[np.int64]
    buckets: Buckets


def bucketed(table: pa.Table, *, most_buckets: int = MOST_BUCKETS) -> SeriesBuckets:
    """Return the plain numbers of records in buckets.

    Args:
        table: Columns `RECORD_COLUMNS`, of one worker and attempt, in the order of a file.
        most_buckets: Maximum number for each series.
    """
    table = table.filter(pc.is_valid(table["value"])).unify_dictionaries()
    columns = [dictionary_column(table, name) for name in _TEXTS]
    codes, firsts = _compact_codes(columns)
    plain = np.array([text in PLAIN_KINDS for text in columns[0].texts], bool)[columns[0].codes[firsts]]
    # Other rows come last, and are left out.
    number = np.where(plain, np.cumsum(plain) - 1, int(plain.sum()))
    codes = number[codes]
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(plain) + 1)[: int(plain.sum())]
    rows = order[: int(counts.sum())]
    codes = codes[rows]
    names = _names_at(columns, firsts[plain])
    sizes = _bucket_sizes(counts, most_buckets)
    begins = np.cumsum(counts) - counts
    within = np.arange(len(rows)) - begins[codes]
    starts = np.flatnonzero(within % sizes[codes] == 0)
    times = table["time"].cast(pa.int64()).to_numpy()[rows] / 1e6
    found = buckets_of_points(table["step"].to_numpy()[rows], table["value"].to_numpy()[rows], times, starts)
    return SeriesBuckets(names, codes[starts], found)


def worthwhile(found: SeriesBuckets) -> bool:
    """Return whether a bucket file is worthwhile: much fewer buckets than numbers."""
    points = int(found.buckets["count"].sum())
    return points >= WORTHWHILE_POINTS and len(found.buckets) * BUCKET_POINTS <= 2 * points


def curves_file(found: SeriesBuckets, chunks: ChunkName, run_id: str) -> tuple[CurvesName, bytes]:
    """Return a bucket file and its name.

    Args:
        found: The buckets of all plain numbers of those chunks.
        chunks: The records file they were computed from.
        run_id: ID of the run.
    """
    columns: dict[str, pa.Array] = {
        name: pa.DictionaryArray.from_arrays(
            pa.array(found.codes.astype(np.int32)), pa.array([series[place] for series in found.names], pa.string())
        ).cast(pa.string())
        for place, name in enumerate(_TEXTS)
    }
    columns |= {name: pa.array(found.buckets[name]) for name in BUCKET.names or ()}
    table = pa.table(columns)
    notes = {"format": FORMAT_VERSION, "run_id": run_id, **_of(chunks)}
    data = noted_bytes([table], table.schema, notes, version="2.6", compression="zstd", use_dictionary=list(_TEXTS),
                       write_statistics=False, write_page_checksum=True, store_schema=False)
    return CurvesName(chunks.worker, chunks.attempt, chunks.first, chunks.last, digest_of(data)), data


def read_curves(store: Store, name: CurvesName, run_id: str) -> SeriesBuckets:
    """Return the buckets in a file.

    Raises:
        DamagedChunk: The file is not what was published under this name in this run.
        ObjectNotFound: There is no such file.
        StoreError: The store does not respond.
    """
    return _read(store, name, run_id, (*_TEXTS, *(BUCKET.names or ())), _from_table)


def read_names(store: Store, name: CurvesName, run_id: str) -> frozenset[SeriesName]:
    """Return the series in a bucket file; raises as `read_curves`."""
    return _read(store, name, run_id, _TEXTS, lambda table: frozenset(_named(table)[0]))


def _read(
    store: Store, name: CurvesName, run_id: str, columns: Sequence[str], made_of: Callable[[pa.Table], Found]
) -> Found:
    table, notes = read_noted(store, name, run_id, columns=columns, texts=_TEXTS, what="buckets")
    if {**notes, **_of(name)} != notes:
        raise DamagedChunk(f"The file covers other chunks than its name says ({name}).")
    try:
        return made_of(table.unify_dictionaries().combine_chunks())
    except ValueError as error:
        raise DamagedChunk(f"The file cannot be read as buckets: {error!r} ({name}).") from error


def _compact_codes(columns: Sequence[DictionaryColumn]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the index of the series of each row, and one row of each series."""
    combined = np.zeros(len(columns[0].codes), np.int64)
    most = 1
    for column in columns:
        most *= max(1, len(column.texts))
        combined = combined * max(1, len(column.texts)) + column.codes
    if most > 4 * len(combined) + 1000:
        _, firsts, codes = np.unique(combined, return_index=True, return_inverse=True)
        return codes, firsts
    # Counting is much faster than sorting.
    row_of = np.full(most, -1, np.intp)
    row_of[combined] = np.arange(len(combined))
    present = np.flatnonzero(row_of >= 0)
    number = np.zeros(most, np.int64)
    number[present] = np.arange(len(present))
    return number[combined], row_of[present]


def _bucket_sizes(counts: NDArray[np.int64], most_buckets: int) -> NDArray[np.int64]:
    """Return the number of points per bucket for each series."""
    smallest = -(-counts // most_buckets) / BUCKET_POINTS
    return BUCKET_POINTS * 2 ** np.ceil(np.log2(np.maximum(smallest, 1.0))).astype(np.int64)


def _of(chunks: ChunkName | CurvesName) -> dict[str, object]:
    return {"worker": chunks.worker, "attempt": chunks.attempt, "first": chunks.first, "last": chunks.last}


def _from_table(table: pa.Table) -> SeriesBuckets:
    names, codes = _named(table)
    buckets = np.empty(len(table), BUCKET)
    for name in BUCKET.names or ():
        column = table[name]
        if column.null_count:
            raise ValueError(f"the column {name} has nulls")
        buckets[name] = column.to_numpy()
    if not sensible_buckets(buckets):
        raise ValueError("a bucket is inconsistent: no numbers have this summary")
    return SeriesBuckets(names, codes, buckets)


def _named(table: pa.Table) -> tuple[list[SeriesName], NDArray[np.int64]]:
    """Return the series of a file, and the index of the series of each row."""
    columns = [dictionary_column(table, name) for name in _TEXTS]
    codes, first = _compact_codes(columns)
    if not set(columns[_TEXTS.index("mode")].texts) <= set(Mode):
        raise ValueError("the column mode has an unknown value")
    return _names_at(columns, first), codes


def _names_at(columns: Sequence[DictionaryColumn], rows: NDArray[np.intp]) -> list[SeriesName]:
    texts = [[column.texts[code] for code in column.codes[rows].tolist()] for column in columns]
    return list(map(SeriesName, *texts))
