"""Many series of a run in one reading: every key of a kind, over all its steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.runs.events import dictionary_column
from barograph.runs.inventory import natural_order, speaking
from barograph.runs.reader import Run
from barograph.runs.series import Series, series_columns, series_from_tables, statistic_named


def bundle(
    run: Run, kind: Kind, statistics: Sequence[str] = ("value",), *, mode: Mode = Mode.TRAIN,
    optimizer: str | None = None,
) -> Iterator[tuple[Series, ...]]:
    """Yield for each key of that kind its series of these statistics, as `Run.series` gives them.

    To ask `Run.series` for one key after the other would read and prove every file once a key.

    Args:
        run: Which.
        kind: Of what.
        statistics: Which numbers, see `Run.series`. Where a key has none of the first, it is left out.
        mode: Only of this mode.
        optimizer: Only of steps of this one; None: of any.

    Raises:
        UnknownName: There is no such statistic.
        StoreError: The store cannot be read.
    """
    wanted = [statistic_named(name) for name in statistics]
    columns = [name for statistic in wanted for name in series_columns(statistic, one_worker=False)]
    table = run.arrow(kind, mode=mode, optimizer=optimizer, columns=tuple(dict.fromkeys(("worker", "path", *columns))))
    for key, tables in _by_key(kind, table):
        series = tuple(series_from_tables(key, statistic, tables) for statistic in wanted)
        if len(series[0]):
            yield series


def bundles(
    run: Run, kind: Kind, statistics: Sequence[str] = ("value",), *, start: int | None = None, stop: int | None = None
) -> Iterator[tuple[Mode, str, tuple[Series, ...]]]:
    """Yield what `bundle` yields for every mode and optimizer, with these, in one reading.

    Args:
        run: Which.
        kind: Of what.
        statistics: Which numbers, see `Run.series`.
        start, stop: Only steps >= start, < stop.

    Raises:
        UnknownName: There is no such statistic.
        StoreError: The store cannot be read.
    """
    wanted = [statistic_named(name) for name in statistics]
    columns = [name for statistic in wanted for name in series_columns(statistic, one_worker=False)]
    table = run.arrow(kind, start=start, stop=stop, columns=tuple(dict.fromkeys(("worker", "path", *columns))))
    modes, optimizers = dictionary_column(table, "mode"), dictionary_column(table, "optimizer")
    codes = modes.codes * len(optimizers.texts) + optimizers.codes
    for code in np.unique(codes).tolist():
        mode, optimizer = divmod(code, len(optimizers.texts))
        for key, tables in _by_key(kind, table.filter(pa.array(codes == code))):
            series = tuple(series_from_tables(key, statistic, tables) for statistic in wanted)
            if len(series[0]):
                yield Mode(modes.texts[mode]), optimizers.texts[optimizer], series


def optimizers_of(run: Run, kind: Kind) -> list[str]:
    """Return the optimizers in whose steps anything of that kind was recorded, sorted; "" is the only one of a run.

    Raises:
        StoreError: The store cannot be read.
    """
    column = dictionary_column(run.arrow(kind, columns=("optimizer",)), "optimizer")
    return sorted((column.texts[code] for code in np.unique(column.codes).tolist()), key=natural_order)


def _by_key(kind: Kind, table: pa.Table) -> Iterator[tuple[Key, dict[str, list[pa.Table]]]]:
    """Yield each key with its rows by worker, of the workers that speak for it."""
    paths, workers = dictionary_column(table, "path"), dictionary_column(table, "worker")
    series = paths.codes * len(workers.texts) + workers.codes
    order = np.argsort(series, kind="stable")
    table, series = table.take(pa.array(order)), series[order]
    starts = np.flatnonzero(np.diff(series, prepend=-1)).tolist()
    parts: dict[str, dict[str, list[pa.Table]]] = {}
    for start, stop in itertools.pairwise([*starts, len(series)]):
        path, worker = divmod(int(series[start]), len(workers.texts))
        parts.setdefault(paths.texts[path], {})[workers.texts[worker]] = [table.slice(start, stop - start)]
    for name, tables in sorted(parts.items()):
        yield Key(kind, name), {worker: tables[worker] for worker in speaking(tables)}
