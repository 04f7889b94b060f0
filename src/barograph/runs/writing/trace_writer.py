"""From the batches that fed training to published files of the data trace.

The newest file is written anew, under a longer range, as long as it is small: so there are few files and no separate
tidying up, and a reader takes the one with the longest range, as of records.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from barograph.errors import ObjectExists, StoreError
from barograph.model.manifest import Worker
from barograph.model.trace import BatchFed
from barograph.runs.format.layout import TRACE, TraceName, digest_of
from barograph.runs.format.trace_file import TraceRow, trace_bytes
from barograph.runs.format.trace_order import Order, order_from_hint
from barograph.store.base import Store

FILE_BYTES = 256 * 2**10
"""Size from which on a file is left as it is."""

FILE_ROWS = 16_384
"""Rows likewise: it is made anew from what is held in memory."""

_OPEN_PASSES = 4
"""Passes whose order is followed at a time; a script with more loaders than that has their samples written."""


@dataclass(frozen=True, slots=True)
class _Written:
    name: TraceName
    size_bytes: int
    last_step: int


class TraceWriter:
    """The data trace of one worker.

    Args:
        store: The run's.
        worker: Whose.
    """

    def __init__(self, store: Store, worker: Worker) -> None:
        self._store = store
        self._worker = worker
        self._rows: list[TraceRow] = []
        self._unpublished = 0
        self._orders: OrderedDict[int, tuple[str, Order]] = OrderedDict()
        self._tail: _Written | None = None
        self._files: list[_Written] = []
        self._trash: deque[str] = deque()
        self._next_part: int | None = None
        self._open_part = 0
        self._lost_batches = 0

    @property
    def unpublished(self) -> int:
        """Batches that were taken in and are not in the store."""
        return self._unpublished

    def add(self, batches: Iterable[BatchFed]) -> None:
        """Take in batches, in the order in which they came."""
        for batch in batches:
            self._rows.append(self._row(batch))
            self._unpublished += 1

    def _row(self, batch: BatchFed) -> TraceRow:
        indices = np.frombuffer(batch.indices, np.int64) if batch.indices else None
        order = "" if indices is None else self._order_of(batch, indices)
        return TraceRow(
            0, batch.tick, batch.step, batch.optimizer, batch.pass_number, batch.loader, batch.size,
            batch.first, batch.samples, batch.loader_worker, order, None if order else indices, batch.names,
        )

    def _order_of(self, batch: BatchFed, indices: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
        """Return the order that tells this batch's samples; "" where none does, and from then on in this pass."""
        if batch.hint is not None and (text := order_from_hint(batch.hint)):
            self._orders[batch.pass_number] = text, Order(text)
            if len(self._orders) > _OPEN_PASSES:
                self._orders.popitem(last=False)
        known = self._orders.get(batch.pass_number)
        if known is None:
            return ""
        if np.array_equal(known[1].part(batch.first, batch.first + batch.samples), indices):
            return known[0]
        del self._orders[batch.pass_number]
        return ""

    def publish(self, dropped_batches: int = 0) -> None:
        """Put what was taken in into the store.

        Args:
            dropped_batches: How many could not even be taken in, so far.

        Raises:
            StoreError: It could not be put; it goes on waiting, and trying again is safe.
        """
        self._empty_trash()
        if not self._unpublished:
            return
        if self._next_part is None:
            self._next_part = self._first_part()
            self._open_part = self._next_part
        # A try that failed may have come through: what the next one puts covers it, so it takes another number.
        part, self._next_part = self._next_part, self._next_part + 1
        self._rows[-self._unpublished :] = [row._replace(part=part) for row in self._rows[-self._unpublished :]]
        data = trace_bytes(self._rows, self._worker, dropped_batches=dropped_batches + self._lost_batches)
        name = TraceName(self._worker.name, self._worker.attempt, self._open_part, part, digest_of(data))
        try:
            self._store.create(str(name), data)
        except ObjectExists:
            pass  # the name says what the bytes are
        except StoreError:
            self._trash.append(str(name))
            raise
        if self._tail is not None:
            self._trash.append(str(self._tail.name))
        self._tail = _Written(name, len(data), max(row.step for row in self._rows))
        self._unpublished = 0
        if len(data) >= FILE_BYTES or len(self._rows) >= FILE_ROWS:
            self._files.append(self._tail)
            self._tail, self._rows, self._open_part = None, [], self._next_part
        self._empty_trash()

    def discard(self) -> int:
        """Give up what was taken in and cannot be written; return how many batches that were."""
        lost, self._unpublished = self._unpublished, 0
        if lost:
            del self._rows[-lost:]
        self._lost_batches += lost
        return lost

    def keep(self, *, last_steps: int | None, size_bytes: int | None) -> None:
        """Remove the oldest files of this attempt beyond these limits; the newest stays.

        Args:
            last_steps: Steps that are kept; None: all.
            size_bytes: Bytes that are kept; None: all.

        Raises:
            StoreError: The store does not do what is asked; trying again is safe.
        """
        newest = self._tail or (self._files[-1] if self._files else None)
        if newest is None:
            return
        kept_bytes = sum(file.size_bytes for file in self._files) + (self._tail.size_bytes if self._tail else 0)
        while self._files and self._files[0] is not newest:
            oldest = self._files[0]
            too_old = last_steps is not None and newest.last_step - oldest.last_step >= last_steps
            if not too_old and (size_bytes is None or kept_bytes <= size_bytes):
                break
            kept_bytes -= oldest.size_bytes
            self._trash.append(str(self._files.pop(0).name))
        self._empty_trash()

    def _first_part(self) -> int:
        """Return the number to begin with: past those of a writer of this worker that is gone."""
        listed = (TraceName.from_name(item.name) for item in self._store.list(f"{TRACE}/{self._worker.name}"))
        return max((name.last + 1 for name in listed if name and name.attempt == self._worker.attempt), default=0)

    def _empty_trash(self) -> None:
        while self._trash:
            self._store.delete(self._trash[0])
            self._trash.popleft()
