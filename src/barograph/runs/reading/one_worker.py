"""A run restricted to one worker, for code that does not select workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barograph.errors import UnknownWorker, nearest
from barograph.measures.buckets import Buckets
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.format.curves_file import SeriesName
from barograph.runs.reading.envelope import Envelope
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.series import Series
from barograph.runs.reading.view import StepView, group_of
from barograph.store.base import Store


class OneWorker(RunReader):
    """The rows of one worker. Keys and findings are those of the whole run.

    Args:
        store: Store of the run.
        worker: Name of the worker: "p1", "r0".

    Raises:
        UnknownWorker: No such worker has published records; the message suggests the nearest.
    """

    def __init__(self, store: Store, worker: str) -> None:
        super().__init__(store)
        known = workers_in(self)
        if worker not in known:
            raise UnknownWorker(
                f'No worker "{worker}" has published records. {nearest(worker, known)} ({self.url})'
            )
        self._worker = worker

    def steps(
        self, mode: Mode | str | None = Mode.TRAIN, *, worker: str | None = None, optimizer: str | None = None
    ) -> NDArray[np.int64]:
        """Return the steps of which this worker recorded something."""
        return super().steps(mode, worker=worker or self._worker, optimizer=optimizer)

    def series(self, key: Key | str, statistic: str = "value", *, worker: str | None = None, **more: Any) -> Series:
        """Return one statistic as this worker recorded it."""
        return super().series(key, statistic, worker=worker or self._worker, **more)

    def curve(self, key: Key | str, statistic: str = "value", *, worker: str | None = None, **more: Any) -> Envelope:
        """Return a series of this worker in few buckets."""
        return super().curve(key, statistic, worker=worker or self._worker, **more)

    def buckets(
        self, kind: Kind, paths: frozenset[str], *, worker: str | None = None
    ) -> Mapping[SeriesName, Buckets]:
        """Return plain numbers of this worker in buckets."""
        return super().buckets(kind, paths, worker=worker or self._worker)

    def summary(self, key: Key | str, step: int, *, worker: str | None = None, **more: Any) -> Summary:
        """Return the Summary of a key at one step, as this worker recorded it."""
        return super().summary(key, step, worker=worker or self._worker, **more)

    def units(self, key: Key | str, step: int, *, worker: str | None = None, **more: Any) -> UnitSummaries:
        """Return the per-unit summaries of a key at one step, as this worker recorded it."""
        return super().units(key, step, worker=worker or self._worker, **more)

    def at(self, step: int, *, worker: str | None = None, **more: Any) -> StepView:
        """Return the records of this worker in one step."""
        return super().at(step, worker=worker or self._worker, **more)

    def tensor(self, key: Key | str, step: int, *, worker: str | None = None, **more: Any) -> NDArray[Any]:
        """Return a whole tensor that this worker saved."""
        return super().tensor(key, step, worker=worker or self._worker, **more)

    def arrow(
        self,
        kind: Kind | str | None = None,
        path: str | frozenset[str] = "*",
        *,
        mode: Mode | str | None = None,
        worker: str | None = None,
        optimizer: str | None = None,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the rows of this worker."""
        return super().arrow(kind, path, mode=mode, worker=worker or self._worker, optimizer=optimizer, start=start,
                             stop=stop, columns=columns)


def workers_in(run: RunReader) -> list[str]:
    """Return the names of the workers with published records, each once, in order."""
    return run._records.workers()


def default_worker(run: RunReader) -> str | None:
    """Return the worker that is shown by default; None: all are merged.

    Ranks of one training are merged. For independent processes the first is shown, because merged numbers of two
    trainings describe neither.
    """
    known = workers_in(run)
    if len(known) < 2 or any(group_of(name) == "r" for name in known):
        return None
    return known[0]
