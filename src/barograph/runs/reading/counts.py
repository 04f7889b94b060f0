"""Counts of labels, and of pairs of label and prediction, summed over ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.runs.format.events import dictionary_column
from barograph.runs.reading.inventory import contributing
from barograph.runs.reading.reader import RunReader


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one label or pair by step.

    Attributes:
        key: Key of the label or pair.
        steps: Steps with counts, ascending; shape (n,).
        counts: Counts, shape (n,), summed over ranks and over evaluations of one step.
    """

    key: Key
    steps: NDArray[np.int64]
    counts: NDArray[np.float64]


def counts_of(
    run: RunReader, kind: Kind, *, mode: Mode, start: int | None = None, stop: int | None = None
) -> Iterator[Counts]:
    """Yield the counts by key.

    Each rank counts its own samples. For independent processes, the counts of the first one are used.

    Args:
        run: The run.
        kind: `LABEL` or `CONFUSION`.
        mode: Only this mode.
        start, stop: Only steps >= start, < stop.

    Raises:
        StoreError: The store cannot be read.
    """
    table = run.arrow(kind, mode=mode, start=start, stop=stop, columns=("worker", "path", "step", "value"))
    workers, paths = dictionary_column(table, "worker"), dictionary_column(table, "path")
    present = [workers.texts[code] for code in np.unique(workers.codes).tolist()]
    counting = np.isin(workers.codes, [workers.texts.index(name) for name in contributing(present)])
    codes, steps, values = (column[counting] for column in (
        paths.codes, table["step"].to_numpy(), table["value"].to_numpy()))
    order = np.lexsort((steps, codes))
    codes, steps, values = codes[order], steps[order], values[order]
    new = np.flatnonzero(np.diff(codes, prepend=-1) | np.diff(steps, prepend=-1))
    if not len(new):
        return
    sums, codes, steps = np.add.reduceat(values, new), codes[new], steps[new]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    for first, last in zip(starts, np.append(starts[1:], len(codes)), strict=True):
        yield Counts(Key(kind, paths.texts[codes[first]]), steps[first:last], sums[first:last])
