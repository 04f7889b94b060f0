"""Reading many series of a run in one pass: every key of a kind."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.runs.format.curves_file import PLAIN_KINDS
from barograph.runs.format.events import dictionary_column
from barograph.runs.format.merging import MERGED_KINDS
from barograph.runs.reading.inventory import contributing, natural_order
from barograph.runs.reading.one_worker import workers_in
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.series import (
    Series,
    SeriesOfAll,
    Statistic,
    series_columns,
    series_from_tables,
    statistic_named,
)

_MODES = {mode: place for place, mode in enumerate(Mode)}


def bundle(
    run: RunReader, kind: Kind, statistics: Sequence[str] = ("value",), *, mode: Mode = Mode.TRAIN,
    optimizer: str | None = None,
) -> Iterator[tuple[Series, ...]]:
    """Yield the series of these statistics for each key of a kind, as `RunReader.series` returns them.

    Calling `RunReader.series` for each key would read and verify every file once a key.

    Args:
        run: The run.
        kind: Kind of the keys.
        statistics: Names of statistics, see `RunReader.series`. Keys without the first one are skipped.
        mode: Only this mode.
        optimizer: Only steps of this optimizer; None: all.

    Raises:
        UnknownName: There is no such statistic.
        StoreError: The store cannot be read.
    """
    wanted = [statistic_named(name) for name in statistics]
    table = run.arrow(kind, mode=mode, optimizer=optimizer, columns=_columns(run, kind, wanted))
    yield from _by_key(kind, wanted, table)


def bundles(
    run: RunReader, kind: Kind, statistics: Sequence[str] = ("value",), *, only: Collection[Key] | None = None,
    start: int | None = None, stop: int | None = None,
) -> Iterator[tuple[Mode, str, tuple[Series, ...]]]:
    """Yield the results of `bundle` for every mode and optimizer, with these, in one pass.

    Args:
        run: The run.
        kind: Kind of the keys.
        statistics: Names of statistics, see `RunReader.series`.
        only: Only these keys; None: all.
        start, stop: Only steps >= start, < stop.

    Raises:
        UnknownName: There is no such statistic.
        StoreError: The store cannot be read.
    """
    wanted = [statistic_named(name) for name in statistics]
    paths = "*" if only is None else frozenset(key.path for key in only if key.kind == kind)
    table = run.arrow(kind, paths, start=start, stop=stop, columns=_columns(run, kind, wanted, "mode", "optimizer"))
    modes, optimizers = dictionary_column(table, "mode"), dictionary_column(table, "optimizer")
    codes = modes.codes * len(optimizers.texts) + optimizers.codes
    for code in np.unique(codes).tolist():
        mode, optimizer = divmod(code, len(optimizers.texts))
        for series in _by_key(kind, wanted, table.filter(pa.array(codes == code))):
            yield Mode(modes.texts[mode]), optimizers.texts[optimizer], series


def optimizers_of(run: RunReader, kind: Kind) -> list[str]:
    """Return the optimizers with records of a kind, sorted; "" is the only one of a run.

    Raises:
        StoreError: The store cannot be read.
    """
    column = dictionary_column(run.arrow(kind, columns=("optimizer",)), "optimizer")
    return sorted((column.texts[code] for code in np.unique(column.codes).tolist()), key=natural_order)


class SeriesName(NamedTuple):
    """One of several series of a run: a key has one for each mode and optimizer it was recorded in."""

    key: Key
    mode: Mode
    optimizer: str


def series_names(run: RunReader, kind: Kind) -> list[SeriesName]:
    """Return the series of a kind in a run: by path, training first, then by optimizer.

    Raises:
        StoreError: The store cannot be read.
    """
    table = run.arrow(kind, columns=("path", "mode", "optimizer"))
    paths, modes, optimizers = (dictionary_column(table, name) for name in ("path", "mode", "optimizer"))
    codes = np.unique((paths.codes * len(modes.texts) + modes.codes) * len(optimizers.texts) + optimizers.codes)
    found = (divmod(code, len(optimizers.texts)) for code in codes.tolist())
    names = [
        SeriesName(Key(kind, paths.texts[rest // len(modes.texts)]), Mode(modes.texts[rest % len(modes.texts)]),
                   optimizers.texts[optimizer])
        for rest, optimizer in found
    ]
    return sorted(names, key=in_order)


def in_order(name: SeriesName) -> tuple[Any, ...]:
    """Return the sort key of series of one kind."""
    return natural_order(name.key.path), _MODES[name.mode], natural_order(name.optimizer)


def _columns(run: RunReader, kind: Kind, wanted: Sequence[Statistic], *more: str) -> tuple[str, ...]:
    # Plain numbers of a single worker are never merged. The other columns take more than half of the time to read.
    alone = kind in PLAIN_KINDS and len(workers_in(run)) == 1
    columns = [name for statistic in wanted for name in series_columns(statistic, one_worker=alone)]
    return tuple(dict.fromkeys(("worker", "path", *more, *columns)))


def _by_key(kind: Kind, wanted: Sequence[Statistic], table: pa.Table) -> Iterator[tuple[Series, ...]]:
    """Yield the series of each key, by path, of the relevant workers; keys without the first statistic are skipped.

    Values shared by all rows are computed once, because there may be a hundred thousand keys.
    """
    if not len(table):
        return
    paths, workers = dictionary_column(table, "path"), dictionary_column(table, "worker")
    names = sorted(paths.texts)
    which = paths.ranks()[paths.codes] * len(workers.texts) + workers.codes
    order = np.argsort(which, kind="stable")
    table, which = table.take(pa.array(order)), which[order]
    of_all = [SeriesOfAll(table, statistic) for statistic in wanted]
    shards = table["shard"].to_numpy() if "shard" in table.column_names else np.zeros(1, bool)
    any_shard = bool(shards.any())
    starts = np.flatnonzero(np.diff(which, prepend=-1))
    spans = zip(which[starts].tolist(), starts.tolist(), [*starts[1:].tolist(), len(which)], strict=True)
    for path, found in itertools.groupby(spans, lambda span: span[0] // len(workers.texts)):
        of_worker = {workers.texts[code % len(workers.texts)]: slice(start, stop) for code, start, stop in found}
        if len(of_worker) > 1:
            of_worker = {name: of_worker[name] for name in contributing(of_worker)}
        key = Key(kind, names[path])
        merged = len(of_worker) > 1 and kind in MERGED_KINDS
        if merged or (any_shard and any(shards[rows].any() for rows in of_worker.values())):
            tables = {name: [table[rows]] for name, rows in of_worker.items()}
            series = tuple(series_from_tables(key, statistic, tables) for statistic in wanted)
        else:
            series = tuple(one.of_first(key, of_worker.values()) for one in of_all)
        if len(series[0]):
            yield series
