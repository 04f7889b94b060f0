"""Columns of a table of components; those of metrics are built when read, because runs may have 100,000 metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GROUP = "metrics."


class MetricColumns(Mapping[str, Sequence[Any]]):
    """Columns named `metrics.NAME.STATISTIC`; None if a component lacks the metric.

    Args:
        names: Names of the metrics, sorted.
        codes: Index into `names` for each record, non-decreasing; every name occurs. Shape (n,).
        rows: Row of each record. Shape (n,).
        records: Array of `packing.METRIC`. Shape (n,).
        statistics: Statistics that have columns.
        height: Number of rows of the table.
    """

    def __init__(
        self, names: Sequence[str], codes: NDArray[np.int64], rows: NDArray[np.intp], records: NDArray[Any],
        statistics: Sequence[str], height: int,
    ) -> None:
        self._names = names
        self._codes, self._rows, self._records = codes, rows, records
        self._statistics = statistics
        self._height = height
        self._starts = np.searchsorted(codes, np.arange(len(names) + 1))

    def __len__(self) -> int:
        return len(self._names) * len(self._statistics)

    def __iter__(self) -> Iterator[str]:
        return (f"{_GROUP}{name}.{statistic}" for name in self._names for statistic in self._statistics)

    def __getitem__(self, column: str) -> Sequence[Any]:
        name, _, statistic = column.removeprefix(_GROUP).rpartition(".")
        code = bisect_left(self._names, name)
        if column != f"{_GROUP}{name}.{statistic}" or name not in self._names[code : code + 1] or (
                statistic not in self._statistics):
            raise KeyError(column)
        mine = slice(self._starts[code], self._starts[code + 1])
        values = np.full(self._height, None, object)
        values[self._rows[mine]] = self._records[statistic][mine]
        return list(values.tolist())

    @property
    def count(self) -> int:
        """Number of metrics."""
        return len(self._names)

    def commonest(self, most: int) -> list[str]:
        """Return the names of the most common metrics, at most `most`, in column order."""
        counts = np.diff(self._starts)
        return [self._names[code] for code in sorted(np.argsort(-counts, kind="stable")[:most].tolist())]

    def by_row(self) -> Iterator[dict[str, Any]]:
        """Yield the present values of each row."""
        order = np.argsort(self._rows, kind="stable")
        bounds = np.searchsorted(self._rows[order], np.arange(self._height + 1)).tolist()
        for start, stop in pairwise(bounds):
            mine = order[start:stop]
            columns = [self._records[statistic][mine].tolist() for statistic in self._statistics]
            yield {f"{_GROUP}{self._names[code]}.{statistic}": value
                   for code, *values in zip(self._codes[mine].tolist(), *columns, strict=True)
                   for statistic, value in zip(self._statistics, values, strict=True)}


class Columns(Mapping[str, Sequence[Any]]):
    """All columns of a table.

    Args:
        before: Columns before the metrics, of equal length.
        metrics: Columns of the metrics; None: none.
        after: Columns after the metrics.

    Attributes:
        metrics: Columns of the metrics.
    """

    def __init__(
        self, before: Mapping[str, Sequence[Any]], metrics: MetricColumns | None = None,
        after: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        height = len(next(iter(before.values()), ()))
        nothing = np.empty(0, np.int64)
        self.metrics = MetricColumns([], nothing, nothing, nothing, (), height) if metrics is None else metrics
        self._before, self._after = before, after or {}

    def __len__(self) -> int:
        return len(self._before) + len(self.metrics) + len(self._after)

    def __iter__(self) -> Iterator[str]:
        return chain(self._before, self.metrics, self._after)

    def __getitem__(self, column: str) -> Sequence[Any]:
        for part in (self._before, self._after):
            if column in part:
                return part[column]
        return self.metrics[column]

    @property
    def before(self) -> Sequence[str]:
        """Names of the columns before the metrics."""
        return list(self._before)

    def filled(self) -> list[str]:
        """Return the columns with at least one value; an empty string is no value."""
        return [*_filled(self._before), *self.metrics, *_filled(self._after)]

    def by_row(self) -> Iterator[dict[str, Any]]:
        """Yield the present values of each row."""
        behind = _by_row(self._after) if self._after else repeat({})
        for before, metrics, after in zip(_by_row(self._before), self.metrics.by_row(), behind, strict=False):
            yield before | metrics | after


def _filled(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    return [name for name, values in columns.items() if any(value is not None and value != "" for value in values)]


def _by_row(columns: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield {name: value for name, value in zip(columns, values, strict=True) if value is not None}
