"""Full metric histories, for exporters; for summaries see `metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.runs.format.events import dictionary_column
from barograph.runs.reading.metrics import HYPERPARAMETER, Metric
from barograph.runs.reading.reader import Run

_COLUMNS = ("worker", "optimizer", "mode", "path", "step", "time", "tick", "value")


class History(NamedTuple):
    """All numbers of a series by step, then in order of recording. The arrays have equal length.

    Attributes:
        metric: The series.
        steps: Steps, ascending.
        times_us: Microseconds since 1970 UTC.
        values: The numbers.
    """

    metric: Metric
    steps: NDArray[np.int64]
    times_us: NDArray[np.int64]
    values: NDArray[np.float64]


def histories_of(run: Run, kind: Kind) -> Iterator[History]:
    """Yield the series of a kind, without hyperparameters; if several workers recorded one, the first one's.

    Raises:
        StoreError: The store cannot be read. Damaged files are skipped and listed in `run.damage`.
    """
    table = run.arrow(kind, columns=_COLUMNS)
    table = table.filter(pc.is_valid(table["value"])).combine_chunks()
    if not len(table):
        return
    codes, texts = zip(*(_codes(table, name) for name in ("path", "mode", "optimizer", "worker")), strict=True)
    steps, values = (table[name].to_numpy() for name in ("step", "value"))
    times, ticks = table["time"].cast(pa.int64()).to_numpy(), table["tick"].to_numpy()
    order = np.lexsort((times, ticks, steps, *reversed(codes)))
    sorted_codes = np.stack([column[order] for column in codes])
    changes = np.flatnonzero(np.any(sorted_codes[:, 1:] != sorted_codes[:, :-1], axis=0)) + 1
    done: set[Metric] = set()
    for group in np.split(order, changes):
        path, mode, optimizer = (texts[place][codes[place][group[0]]] for place in range(3))
        metric = Metric(Key(kind, path), Mode(mode), optimizer)
        if metric in done or path.startswith(HYPERPARAMETER):
            continue
        done.add(metric)
        yield History(metric, steps[group], times[group], values[group])


def _codes(table: pa.Table, name: str) -> tuple[NDArray[np.int64], list[str]]:
    column = dictionary_column(table, name)
    return column.ranks()[column.codes], sorted(column.texts)
