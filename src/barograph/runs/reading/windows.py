"""Spans of steps that fit into memory, so that a long run needs no more than a short one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader

WINDOW_ROWS = 500_000
"""Rows of one span; each takes some hundred bytes of memory."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The steps of one kind of record, split into spans.

    Attributes:
        low, high: Smallest and largest step; 0 and -1 if there is none.
        edges: First step of each span, and finally the step after the largest.
    """

    low: int
    high: int
    edges: tuple[int, ...]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the first step of each span, and the step after its last."""
        return itertools.pairwise(self.edges)


def windows_of(run: RunReader, kind: Kind, *, mode: Mode | None = None, rows: int = WINDOW_ROWS) -> Windows:
    """Return the spans for reading the records of a kind.

    Args:
        run: The run.
        kind: Kind of records.
        mode: Only this mode; None: all.
        rows: Approximate number of rows in a span; a step is never split.

    Raises:
        StoreError: The store cannot be read.
    """
    steps = np.sort(run.arrow(kind, mode=mode, columns=("step",))["step"].to_numpy())
    if not len(steps):
        return Windows(0, -1, ())
    firsts = np.unique(steps[::rows])
    return Windows(int(steps[0]), int(steps[-1]), (*firsts.tolist(), int(steps[-1]) + 1))
