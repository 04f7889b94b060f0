"""One worker's records of one step, as they are read back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key, Kind
from barograph.model.records import Subject, UnitSummaries


class SubjectTable:
    """Subjects by row, with the ways to find them; made once for the many steps that share it."""

    def __init__(self, subjects: tuple[Subject, ...]) -> None:
        self.subjects = subjects
        self._rows_in: dict[tuple[Kind, frozenset[str]], tuple[int, ...]] = {}

    @cached_property
    def row_of_key(self) -> Mapping[Key, int]:
        """Key to its first row, in the order of the rows."""
        rows: dict[Key, int] = {}
        for row, subject in enumerate(self.subjects):
            rows.setdefault(subject.key, row)
        return rows

    def rows_in(self, kind: Kind, layers: Collection[str]) -> tuple[int, ...]:
        """Return the rows of a kind, restricted to these layer classes if there are any."""
        asked = kind, frozenset(layers)
        if asked not in self._rows_in:
            rows = self.rows_of_kind[kind][1].tolist() if kind in self.rows_of_kind else []
            self._rows_in[asked] = tuple(row for row in rows if not layers or self.subjects[row].layer in layers)
        return self._rows_in[asked]

    @cached_property
    def has_parts(self) -> bool:
        """Whether any subject is a worker's part of a split tensor."""
        return any(subject.shard for subject in self.subjects)

    @cached_property
    def rows_of_kind(self) -> Mapping[Kind, tuple[tuple[Subject, ...], NDArray[np.intp]]]:
        """Kind to its subjects and their rows."""
        rows: dict[Kind, list[int]] = {}
        for row, subject in enumerate(self.subjects):
            rows.setdefault(subject.key.kind, []).append(row)
        return {
            kind: (tuple(self.subjects[row] for row in found), np.array(found, np.intp))
            for kind, found in rows.items()
        }


@dataclass(frozen=True, slots=True)
class SparseHistograms:
    """Histograms as their nonempty bins: small, and suitable for sending to another process.

    Attributes:
        shape: Shape of the whole array, (rows, bins).
        places: Indices of the nonempty bins in the flattened array.
        counts: Their counts.
    """

    shape: tuple[int, int]
    places: NDArray[np.intp]
    counts: NDArray[np.int64]

    def __call__(self) -> NDArray[np.int64]:
        """Return the whole array."""
        whole = np.zeros(self.shape[0] * self.shape[1], np.int64)
        whole[self.places] = self.counts
        return whole.reshape(self.shape)


def _no_histograms() -> NDArray[np.int64] | None:
    return None


@dataclass(frozen=True, slots=True)
class WorkerRows:
    """Records of one worker in one step.

    Attributes:
        table: Subjects of the rows.
        moments: Shape (rows, 10), columns as in `MOMENT_FIELDS`.
        histograms: Returns the array of shape (rows, 512), or None without histograms. A function, because the array is
            large and most callers do not need it.
        units: Per-unit summaries by row.
        scalars: Plain numbers, including the mean of each loss.
        tensors: Keys whose whole tensor was saved.
    """

    table: SubjectTable
    moments: NDArray[np.float64]
    histograms: Callable[[], NDArray[np.int64] | None] = _no_histograms
    units: Mapping[int, UnitSummaries] = field(default_factory=dict)
    scalars: Mapping[Key, float] = field(default_factory=dict)
    tensors: frozenset[Key] = frozenset()

    def portable(self, *, histograms: bool) -> WorkerRows:
        """Return the same as data alone, which another process can be sent; with its histograms or without."""
        whole = self.histograms() if histograms else None
        if whole is None:
            return replace(self, histograms=_no_histograms)
        places = np.flatnonzero(whole)
        return replace(self, histograms=SparseHistograms((whole.shape[0], whole.shape[1]), places,
                                                         whole.reshape(-1)[places]))
