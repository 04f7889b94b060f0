"""Merging of the records of several workers in one step: shards and activations are merged, replicas are used once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from barograph.measures.summary import identity_rows, merge_rows, merge_unit_columns
from barograph.model.key import Key, Kind
from barograph.model.records import Subject, UnitSummaries
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS
from barograph.runs.format.rows import SubjectTable, WorkerRows

MERGED_KINDS = frozenset({Kind.INPUT, Kind.OUTPUT, Kind.LOSS})
"""Kinds whose elements differ between workers, so that they are merged. For other kinds workers have replicas, and
the first worker's are used, unless the subject is a shard."""

_COUNT, _NAN, _POSINF, _NEGINF, _ZEROS, _SUM = (
    MOMENT_FIELDS.index(name) for name in ("count", "nan", "posinf", "neginf", "zeros", "sum")
)


def merges(subject: Subject) -> bool:
    """Return whether workers have different elements of a subject."""
    return subject.shard or subject.key.kind in MERGED_KINDS


def means_of_rows(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each row over all its elements: NaN and inf count, as they do in a loss.

    Args:
        moments: Shape (n, 10), columns as in `MOMENT_FIELDS`.

    Returns:
        Shape (n,). NaN for a row without elements.

    Example:
        >>> means_of_rows(np.array([[2.0, 0, 1, 0, 0, 0.5, 0.5, 0.5, 0.25, 0.5]]))
        array([inf])
    """
    nan, posinf, neginf = moments[:, _NAN], moments[:, _POSINF], moments[:, _NEGINF]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = moments[:, _SUM] / moments[:, _COUNT]
    means[posinf > 0] = np.inf
    means[neginf > 0] = -np.inf
    means[(nan > 0) | ((posinf > 0) & (neginf > 0))] = np.nan
    return means


def merge_workers(workers: Sequence[WorkerRows]) -> WorkerRows:
    """Return the merged rows of all workers. Replicas are those of the first worker."""
    subjects: dict[Key, int] = {}
    merged: list[Subject] = []
    for rows in workers:
        for key, row in rows.table.row_of_key.items():
            if key not in subjects:
                subjects[key] = len(merged)
                merged.append(rows.table.subjects[row])
    moments = identity_rows(len(merged))
    units: dict[int, UnitSummaries | None] = {}
    contributions: list[tuple[WorkerRows, NDArray[np.intp], NDArray[np.intp]]] = []
    seen: set[Key] = set()
    for rows in workers:
        taken = [key for key in rows.table.row_of_key if key not in seen or merges(merged[subjects[key]])]
        seen.update(taken)
        into = np.array([subjects[key] for key in taken], np.intp)
        source = np.array([rows.table.row_of_key[key] for key in taken], np.intp)
        contributions.append((rows, into, source))
        target = moments[into]
        merge_rows(target, rows.moments[source])
        moments[into] = target
        for row_into, row in zip(into.tolist(), source.tolist(), strict=True):
            mine = rows.units.get(row)
            units[row_into] = _merge_units(units[row_into], mine) if row_into in units else mine
    # If a worker's part of a split tensor is missing, the merge does not represent the tensor.
    kept = np.flatnonzero(moments[:, _COUNT] >= [subject.whole for subject in merged])
    place = {int(row): at for at, row in enumerate(kept)}

    def histograms() -> NDArray[np.int64] | None:
        whole = _merge_histograms(len(merged), contributions)
        return None if whole is None else whole[kept]

    return WorkerRows(
        table=SubjectTable(tuple(merged[row] for row in kept)),
        moments=moments[kept],
        histograms=histograms,
        units={place[row]: item for row, item in units.items() if row in place and item is not None},
        scalars=_merge_scalars(workers, subjects, moments),
        tensors=frozenset().union(*(rows.tensors for rows in workers)),
    )


def _merge_histograms(
    count: int, contributions: Sequence[tuple[WorkerRows, NDArray[np.intp], NDArray[np.intp]]]
) -> NDArray[np.int64] | None:
    """Return the merged histograms; a row is zero if a worker with elements of it recorded none."""
    merged: NDArray[np.int64] | None = None
    partial = np.zeros(count, bool)
    for rows, into, source in contributions:
        exponents = rows.histograms()
        taken = np.zeros(len(into), bool) if exponents is None else exponents[source].any(axis=1)
        partial[into] |= ~taken & _has_nonzero(rows.moments[source])
        if exponents is not None:
            if merged is None:
                merged = np.zeros((count, EXPONENT_BINS), np.int64)
            merged[into] += exponents[source]
    if merged is not None:
        merged[partial] = 0
    return merged


def _has_nonzero(moments: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each row whether it has an element in a bin."""
    apart: NDArray[np.float64] = moments[:, [_NAN, _POSINF, _NEGINF, _ZEROS]].sum(axis=1)
    return moments[:, _COUNT] > apart


def _merge_units(first: UnitSummaries | None, second: UnitSummaries | None) -> UnitSummaries | None:
    """Return the merged units; None if one has none, or their units or bounds differ."""
    if first is None or second is None:
        return None
    same_bound = first.bound == second.bound or (math.isnan(first.bound) and math.isnan(second.bound))
    if first.columns.shape != second.columns.shape or not same_bound:
        return None
    columns = first.columns.copy()
    merge_unit_columns(columns, second.columns)
    return UnitSummaries(first.count + second.count, columns, first.bound)


def _merge_scalars(
    workers: Sequence[WorkerRows], subjects: Mapping[Key, int], moments: NDArray[np.float64]
) -> dict[Key, float]:
    scalars: dict[Key, float] = {}
    losses: dict[Key, list[float]] = {}
    for rows in workers:
        for key, value in rows.scalars.items():
            scalars.setdefault(key, value)
            if key.kind == Kind.LOSS:
                losses.setdefault(key, []).append(value)
    # Each worker has its own part of the batch, so the loss of the step is their mean.
    scalars.update({key: sum(values) / len(values) for key, values in losses.items()})
    summarised = [key for key in losses if key in subjects]
    if summarised:
        means = means_of_rows(moments[[subjects[key] for key in summarised]])
        scalars.update(zip(summarised, means.tolist(), strict=True))
    return scalars
