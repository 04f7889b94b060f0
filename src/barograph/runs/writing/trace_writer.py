"""Writing of the data trace.

While the newest file is small, it is rewritten with a longer range: so there are few files and no separate
compaction, and a reader uses the file with the longest range, as for records.
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
"""Size from which on a file is not rewritten."""

FILE_ROWS = 16_384
"""Rows from which on a file is not rewritten; its rows are kept in memory until then."""

_OPEN_PASSES = 4
"""Number of passes whose order is verified at once; with more loaders, samples are written individually."""


@dataclass(frozen=True, slots=True)
class _Written:
    name: TraceName
    size_bytes: int
    last_step: int


class TraceWriter:
    """Writes the data trace of one worker.

    Args:
        store: Store of the run.
        worker: The worker.
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
        """Accepted batches that are not in the store."""
        return self._unpublished

    def add(self, batches: Iterable[BatchFed]) -> None:
        """Add batches, in order."""
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
        """Return the order that yields this batch's samples; "" if none does, and from then on in this pass."""
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
        """Publish the added batches.

        Args:
            dropped_batches: Number of batches that did not fit into the queue so far.

        Raises:
            StoreError: They could not be written and keep waiting; retrying is safe.
        """
        self._empty_trash()
        if not self._unpublished:
            return
        if self._next_part is None:
            self._next_part = self._first_part()
            self._open_part = self._next_part
        # A failed try may have succeeded after all: the next one covers it, with another number.
        part, self._next_part = self._next_part, self._next_part + 1
        self._rows[-self._unpublished :] = [row._replace(part=part) for row in self._rows[-self._unpublished :]]
        data = trace_bytes(self._rows, self._worker, dropped_batches=dropped_batches + self._lost_batches)
        name = TraceName(self._worker.name, self._worker.attempt, self._open_part, part, digest_of(data))
        try:
            self._store.create(str(name), data)
        except ObjectExists:
            pass  # the name has the digest
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
        """Discard batches that cannot be written; return their number."""
        lost, self._unpublished = self._unpublished, 0
        if lost:
            del self._rows[-lost:]
        self._lost_batches += lost
        return lost

    def keep(self, *, last_steps: int | None, size_bytes: int | None) -> None:
        """Remove the oldest files of this attempt beyond these limits. The newest is always kept.

        Args:
            last_steps: Steps to keep; None: all.
            size_bytes: Bytes to keep; None: all.

        Raises:
            StoreError: An operation failed; retrying is safe.
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
        """Return the first part number, after those of a previous writer of this worker."""
        listed = (TraceName.from_name(item.name) for item in self._store.list(f"{TRACE}/{self._worker.name}"))
        return max((name.last + 1 for name in listed if name and name.attempt == self._worker.attempt), default=0)

    def _empty_trash(self) -> None:
        while self._trash:
            self._store.delete(self._trash[0])
            self._trash.popleft()
