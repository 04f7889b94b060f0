"""The columns of a table of components. One run may have a hundred thousand metrics: theirs are made when asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GROUP = "metrics."


class MetricColumns(Mapping[str, Sequence[Any]]):
    """Columns called `metrics.NAME.STATISTIC`; None stands where a component has no such metric.

    Args:
        names: Of the metrics, sorted.
        codes: Of each record, which of these it is of, not going down; each has one at least. Shape (n,).
        rows: Of each record, the row that it is for. Shape (n,).
        records: Array of `packing.METRIC`. Shape (n,).
        statistics: That have columns.
        height: Rows of the table.
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
        """How many metrics there are."""
        return len(self._names)

    def commonest(self, most: int) -> list[str]:
        """Return the names of those metrics that most components have, at most so many, in the order of the columns."""
        counts = np.diff(self._starts)
        return [self._names[code] for code in sorted(np.argsort(-counts, kind="stable")[:most].tolist())]

    def by_row(self) -> Iterator[dict[str, Any]]:
        """Return for each row what it has."""
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
        before: Those that stand before the metrics, of one length.
        metrics: Of the metrics; None: none.
        after: Those that stand behind them.

    Attributes:
        metrics: See above.
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
        """Names of the columns that stand before the metrics."""
        return list(self._before)

    def filled(self) -> list[str]:
        """Return the columns in which any component has anything; an empty text is nothing."""
        return [*_filled(self._before), *self.metrics, *_filled(self._after)]

    def by_row(self) -> Iterator[dict[str, Any]]:
        """Return for each row what it has."""
        behind = _by_row(self._after) if self._after else repeat({})
        for before, metrics, after in zip(_by_row(self._before), self.metrics.by_row(), behind, strict=False):
            yield before | metrics | after


def _filled(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    return [name for name, values in columns.items() if any(value is not None and value != "" for value in values)]


def _by_row(columns: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield {name: value for name, value in zip(columns, values, strict=True) if value is not None}
