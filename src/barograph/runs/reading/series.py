"""A statistic of a key over the steps, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barograph.errors import UnknownName, nearest
from barograph.model.key import Key, Kind
from barograph.model.summary import MOMENT_FIELDS
from barograph.runs.format.events import dictionary_column
from barograph.runs.format.merging import MERGED_KINDS

Floats = NDArray[np.float64]
_Columns = Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Series:
    """A statistic of a key over the steps.

    Attributes:
        steps: Step numbers, shape (n,), in recorded order: ascending within an optimizer. Merged series have the order
            of the first worker.
        values: Shape (n,). NaN and inf are recorded values.
        times: Seconds since 1970 UTC by the worker's clock, shape (n,).
    """

    key: Key
    statistic: str
    steps: NDArray[np.int64]
    values: Floats
    times: Floats

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number computed from each row.

    Attributes:
        name: Its name.
        needs: Columns it is computed from.
        of: Computes it.
    """

    name: str
    needs: tuple[str, ...]
    of: Callable[[_Columns], Floats]


def statistic_named(name: str) -> Statistic:
    """Return the statistic with this name.

    Raises:
        UnknownName: There is no such statistic; the message suggests the nearest.

    Example:
        >>> statistic_named("l2").needs
        ('sum_sq',)
    """
    if name not in _STATISTICS:
        raise UnknownName(f'"{name}" is not a statistic. {nearest(name, _STATISTICS)}')
    return _STATISTICS[name]


def series_from_tables(key: Key, statistic: Statistic, tables: Mapping[str, Sequence[pa.Table]]) -> Series:
    """Return the series of the rows of one key.

    Args:
        key: The key.
        statistic: The statistic.
        tables: Worker to its rows in order of time, with the columns of `series_columns`. Workers in order of
            precedence.
    """
    present = {worker: _having(pa.concat_tables(parts), statistic) for worker, parts in tables.items() if parts}
    present = {worker: table for worker, table in present.items() if len(table)}
    if not present:
        return _empty_series(key, statistic.name)
    joined = list(present.values())
    if _any_shard(joined) or (len(joined) > 1 and key.kind in MERGED_KINDS):
        return _merged(key, statistic, joined)
    table = joined[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = statistic.of(_columns(table, statistic))
    return Series(key, statistic.name, _ints(table, "step"), values, _times(table))


def series_columns(statistic: Statistic, *, one_worker: bool) -> tuple[str, ...]:
    """Return the columns that `series_from_tables` needs."""
    columns = ("step", "time", *statistic.needs)
    if one_worker:
        return columns
    which = ("attempt", "tick", "optimizer", "mode", "shard", "whole")
    return tuple(dict.fromkeys((*columns, *which, "value", *MOMENT_FIELDS)))


class SeriesOfAll:
    """One statistic of all rows of a table in which the rows of each key are contiguous.

    Args:
        table: Table with the columns of `series_columns`; no row is a worker's part of a split tensor.
        statistic: The statistic.
    """

    def __init__(self, table: pa.Table, statistic: Statistic) -> None:
        self._statistic = statistic.name
        needed = table[statistic.needs[0]]
        self._has = needed.is_valid().to_numpy() if needed.null_count else None
        self._steps, self._times = _ints(table, "step"), _times(table)
        with np.errstate(invalid="ignore", divide="ignore"):
            self._values = statistic.of(_columns(table, statistic))

    def of_first(self, key: Key, stretches: Iterable[slice]) -> Series:
        """Return the series of the first range with the statistic; empty if none has it."""
        for rows in stretches:
            if self._has is None:
                return Series(key, self._statistic, self._steps[rows], self._values[rows], self._times[rows])
            has = self._has[rows]
            if has.any():
                return Series(
                    key, self._statistic, self._steps[rows][has], self._values[rows][has], self._times[rows][has])
        return _empty_series(key, self._statistic)


def _empty_series(key: Key, statistic: str) -> Series:
    return Series(key, statistic, np.empty(0, np.int64), np.empty(0), np.empty(0))


def _finite(columns: _Columns) -> Floats:
    return columns["count"] - _nonfinite(columns)


def _nonfinite(columns: _Columns) -> Floats:
    return columns["nan"] + columns["posinf"] + columns["neginf"]


def _mean_of(column: str) -> Callable[[_Columns], Floats]:
    return lambda columns: columns[column] / _finite(columns)


def _variance(columns: _Columns) -> Floats:
    finite = _finite(columns)
    variance: Floats = np.maximum(columns["sum_sq"] / finite - (columns["sum"] / finite) ** 2, 0.0)
    return variance


def _max_abs(columns: _Columns) -> Floats:
    largest = np.maximum(np.abs(columns["min"]), np.abs(columns["max"]))
    return np.where(_finite(columns) > 0, largest, np.nan)


_COUNTS = ("count", "nan", "posinf", "neginf")

_STATISTICS: Mapping[str, Statistic] = {
    statistic.name: statistic
    for statistic in (
        Statistic("value", ("value",), lambda columns: columns["value"]),
        *(Statistic(name, (name,), lambda columns, name=name: columns[name]) for name in MOMENT_FIELDS),  # type: ignore[misc]
        Statistic("finite", _COUNTS, _finite),
        Statistic("nonfinite", _COUNTS, _nonfinite),
        Statistic("mean", (*_COUNTS, "sum"), _mean_of("sum")),
        Statistic("mean_abs", (*_COUNTS, "sum_abs"), _mean_of("sum_abs")),
        Statistic("variance", (*_COUNTS, "sum", "sum_sq"), _variance),
        Statistic("std", (*_COUNTS, "sum", "sum_sq"), lambda columns: np.sqrt(_variance(columns))),
        Statistic("l1", ("sum_abs",), lambda columns: columns["sum_abs"]),
        Statistic("l2", ("sum_sq",), lambda columns: np.sqrt(columns["sum_sq"])),
        Statistic("rms", (*_COUNTS, "sum_sq"), lambda columns: np.sqrt(columns["sum_sq"] / _finite(columns))),
        Statistic("max_abs", (*_COUNTS, "min", "max"), _max_abs),
        Statistic("sparsity", ("count", "zeros"), lambda columns: columns["zeros"] / columns["count"]),
    )
}


def _merged(key: Key, statistic: Statistic, workers: Sequence[pa.Table]) -> Series:
    """Merge the rows of different workers for the same step."""
    table = pa.concat_tables(workers).unify_dictionaries().combine_chunks()
    worker = np.repeat(np.arange(len(workers)), [len(rows) for rows in workers])
    steps = _ints(table, "step")
    attempt = _ints(table, "attempt")
    what = (steps, dictionary_column(table, "mode").codes, dictionary_column(table, "optimizer").codes, attempt)
    # If a step has several records (two evaluations), those with the same index in each worker correspond.
    nth = _running_count((*what, worker))
    order = np.lexsort((worker, nth, *what))
    starts = _starts([column[order] for column in (*what, nth)])
    columns = {name: _floats(table, name)[order] for name in ("value", *MOMENT_FIELDS)}
    columns["count"] = np.nan_to_num(columns["count"])  # plain numbers have none
    counted = np.maximum(columns["count"], 1.0)
    with np.errstate(invalid="ignore"):
        merged = {name: np.add.reduceat(columns[name], starts) for name in MOMENT_FIELDS}
        merged["min"] = np.minimum.reduceat(columns["min"], starts)
        merged["max"] = np.maximum.reduceat(columns["max"], starts)
        value = np.add.reduceat(columns["value"] * counted, starts) / np.add.reduceat(counted, starts)
    complete = merged["count"] >= np.maximum.reduceat(_whole(table)[order], starts)
    merged["value"] = value if key.kind == Kind.LOSS else columns["value"][starts]
    first = order[starts]
    in_time = _in_time([column[first] for column in what], worker[first], _ints(table, "tick")[first])
    # A split tensor of which a worker's part is missing has no figure at that step.
    in_time = in_time[complete[in_time]]
    with np.errstate(invalid="ignore", divide="ignore"):
        values = statistic.of(merged)
    return Series(key, statistic.name, steps[first][in_time], values[in_time], _times(table)[first][in_time])


def _in_time(
    what: Sequence[NDArray[np.int64]], worker: NDArray[np.int64], tick: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Return the chronological order of records: that of the first worker of each attempt.

    Records that this worker lacks follow its last record before their step, of the same optimizer and mode if there is
    one. Clocks are not used: those of two machines differ, and one may jump back.

    Args:
        what: Step, mode, optimizer and attempt of each record, sorted by these, the last one first.
        worker, tick: The first worker that has the record, and its tick.
    """
    steps, attempt = what[0], what[-1]
    first_worker = np.minimum.reduceat(worker, _starts([attempt]))
    known = worker == first_worker[np.cumsum(np.diff(attempt, prepend=attempt[:1]) != 0)]
    place = np.where(known, tick, _last_known(what[1:], known, tick))
    by_step = np.lexsort((~known, steps, attempt))
    of_any = np.empty(len(steps), np.int64)
    of_any[by_step] = _last_known([attempt[by_step]], known[by_step], tick[by_step])
    place = np.where(place < 0, of_any, place)
    return np.lexsort((steps, ~known, place, attempt))


def _last_known(
    of_one: Sequence[NDArray[np.int64]], known: NDArray[np.bool_], tick: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the tick of the last known record of the same group before each; -1 without one."""
    starts = _starts(of_one)
    begin = np.repeat(starts, np.diff(np.append(starts, len(known))))
    last = np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))
    return np.where(last >= begin, tick[last], -1)


def _whole(table: pa.Table) -> NDArray[np.int64]:
    whole: NDArray[np.int64] = table["whole"].fill_null(0).to_numpy()
    return whole


def _running_count(what: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return for each row how many rows before it are the same."""
    order = np.lexsort(tuple(what))
    starts = _starts([column[order] for column in what])
    lengths = np.diff(np.append(starts, len(order)))
    counts = np.empty(len(order), np.int64)
    counts[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    return counts


def _starts(sorted_columns: Sequence[NDArray[np.int64]]) -> NDArray[np.intp]:
    changes = np.zeros(len(sorted_columns[0]) - 1, bool)
    for column in sorted_columns:
        changes |= column[1:] != column[:-1]
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def _having(table: pa.Table, statistic: Statistic) -> pa.Table:
    column = table[statistic.needs[0]]
    return table.filter(column.is_valid()) if column.null_count else table


def _any_shard(tables: Sequence[pa.Table]) -> bool:
    return any("shard" in table.column_names and bool(table["shard"].to_numpy().any()) for table in tables)


def _columns(table: pa.Table, statistic: Statistic) -> _Columns:
    return {name: _floats(table, name) for name in statistic.needs}


def _ints(table: pa.Table, name: str) -> NDArray[np.int64]:
    ints: NDArray[np.int64] = table[name].to_numpy().astype(np.int64, copy=False)
    return ints


def _floats(table: pa.Table, name: str) -> Floats:
    floats: Floats = table[name].to_numpy().astype(np.float64, copy=False)
    return floats


def _times(table: pa.Table) -> Floats:
    micros: NDArray[np.int64] = table["time"].cast(pa.int64()).to_numpy()
    return micros / 1e6
