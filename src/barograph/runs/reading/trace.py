"""The data trace of a run: the samples of each step, the steps of a sample, and the first difference of two runs."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barograph.errors import UnknownName, UnknownStep, nearest
from barograph.runs.format.trace_order import Order
from barograph.runs.format.traced import DataRead, TracedBatch, is_called
from barograph.runs.reading.supersession import Supersession
from barograph.runs.reading.trace_files import counting_rows, read_files
from barograph.runs.reading.view import worker_order
from barograph.store.base import Store

_ORDERS_KEPT = 4
_INDEX = re.compile(r"-?[0-9]{1,18}")

NO_TRACE = ("This run has no data trace. Its training used no PyTorch DataLoader, `trace` was off, "
            "or an older Barograph recorded it.")


@dataclass(frozen=True, slots=True)
class Parting:
    """The first difference between the data of two runs.

    Attributes:
        step: The first step with different samples. None: no difference in their common steps.
        same_steps: Number of steps before it, which have the same samples.
        one, other: Batches of each run at that step.
        only: "one" or "other": the run that has more steps, if no common step differs; otherwise "".
    """

    step: int | None
    same_steps: int
    one: tuple[TracedBatch, ...] = ()
    other: tuple[TracedBatch, ...] = ()
    only: str = ""


class Trace:
    """The samples that each step of a run used, as of when this object was created.

    Args:
        store: The run's store.
        run_id: Id of the run.
        superseding: Decides which attempt's steps count. None: there is only one attempt.

    Attributes:
        damage: Unreadable files, one sentence each.
        dropped_batches: Number of batches that were not recorded because the store was too slow.

    Raises:
        StoreError: The store cannot be read.
    """

    def __init__(self, store: Store, run_id: str, superseding: Supersession | None = None) -> None:
        found = read_files(store, run_id)
        self.damage = found.damage
        self.dropped_batches = found.dropped_batches
        self._orders: OrderedDict[str, Order] = OrderedDict()
        self._table = counting_rows(found.table, superseding).unify_dictionaries().combine_chunks()
        self._steps = self._table["step"].to_numpy()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The recorded steps, in ascending order, without duplicates."""
        return np.unique(self._steps)

    def data_sets(self) -> list[DataRead]:
        """Return the data sets that steps used, worker by worker."""
        rows: dict[tuple[int, str, str], list[int]] = {}
        for row in range(len(self._table)):
            rows.setdefault(self._loader(row), []).append(row)
        return [self._data_read(*whose, found) for whose, found in rows.items()]

    def at(self, step: int, *, before: int = 0) -> tuple[TracedBatch, ...]:
        """Return the batches of a step, in the order they were used, worker by worker.

        Args:
            step: Step number.
            before: Number of preceding steps to include.

        Raises:
            UnknownStep: The step was not recorded.
        """
        if not (self._steps == step).any():
            raise UnknownStep(f"The samples of step {step} were not recorded. {self._known_steps()}")
        return self._batches(np.flatnonzero((self._steps <= step) & (self._steps >= step - before)))

    def seeing(self, sample: int | str) -> tuple[TracedBatch, ...]:
        """Return the batches that contained a sample, in order.

        Args:
            sample: Its index in the data set; for a stream, the loader's worker and the position, as in "0:25".
        """
        wanted = str(sample)
        indices = np.array([int(wanted)] if _INDEX.fullmatch(wanted) else [], np.int64)
        return self._seeing(lambda loader: indices, streams=wanted)

    def of_file(self, name: str) -> tuple[TracedBatch, ...]:
        """Return the batches that contained a named sample, in order.

        Args:
            name: The name, its end (`cat.png`, `train/cat.png`), or a pattern (`*cat*`). For a sample in an archive,
                named `FILE#KEY`, either part.

        Raises:
            UnknownName: No sample has this name; the message suggests similar ones.
        """
        known = {loader: {number for number, text in names.items() if is_called(text, name)}
                 for loader, names in self._names.items()}
        rows = [at for at, (_, names) in self._named_rows.items() if any(is_called(text, name) for text in names)]
        if not any(known.values()) and not rows:
            every = {text.rpartition("/")[2] for names in self._names.values() for text in names.values()}
            what = nearest(name, every) if every else "The run has no sample names."
            raise UnknownName(f'There is no sample "{name}". {what}')
        streams = [at for at in rows if self._is_stream[at]]
        return self._seeing(lambda loader: np.array(sorted(known.get(loader, ())), np.int64), more=streams)

    def parting(self, other: Trace) -> Parting:
        """Return the first difference between the data of two runs, over their common steps.

        Samples are equal if their indices are equal and, if both runs recorded names, their names.
        """
        mine, others = self._rows_by_step, other._rows_by_step
        shared = [step for step in mine if step in others]
        for count, step in enumerate(shared):
            if self._same(mine[step], other, others[step]):
                continue
            return Parting(step, count, self._batches(mine[step]), other._batches(others[step]))
        longer = {True: "one", False: "other"}
        only = longer[len(mine) > len(others)] if set(mine) != set(others) else ""
        return Parting(None, len(shared), only=only)

    # Rows and batches

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        plain = ("attempt", "worker", "tick", "optimizer", "pass", "loader", "size", "first", "count", "loader_worker",
                 "order")
        return {name: self._table[name].to_pylist() for name in plain}

    @cached_property
    def _is_stream(self) -> NDArray[np.bool_]:
        no_order, no_indices = (self._table[name].is_null().to_numpy() for name in ("order", "indices"))
        streams: NDArray[np.bool_] = no_order & no_indices
        return streams

    @cached_property
    def _named_rows(self) -> dict[int, tuple[list[int], list[str]]]:
        """Row to the samples that it names, and their names."""
        rows = np.flatnonzero(np.asarray(self._table["named"].is_valid())).tolist()
        part = self._table.select(["named", "names"]).take(pa.array(rows, pa.int64()))
        pairs = zip(part["named"].to_pylist(), part["names"].to_pylist(), strict=True)
        return dict(zip(rows, pairs, strict=True))

    @cached_property
    def _names(self) -> dict[tuple[int, str, str], dict[int, str]]:
        """Attempt, worker and data set to the names of its samples by index; of streams nothing."""
        found: dict[tuple[int, str, str], dict[int, str]] = {}
        for row, (numbers, names) in self._named_rows.items():
            if not self._is_stream[row]:
                found.setdefault(self._loader(row), {}).update(zip(numbers, names, strict=True))
        return found

    def _loader(self, row: int) -> tuple[int, str, str]:
        columns = self._columns
        return columns["attempt"][row], columns["worker"][row], columns["loader"][row]

    def _data_read(self, attempt: int, worker: str, loader: str, rows: Sequence[int]) -> DataRead:
        passes, steps = {self._columns["pass"][row] for row in rows}, self._steps[rows]
        names = self._names.get((attempt, worker, loader), {})
        return DataRead(loader, self._columns["size"][rows[0]], worker, attempt, len(passes), len(rows),
                        int(steps.min()), int(steps.max()), len(names))

    @cached_property
    def _rows_by_step(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for row in self._in_order(np.arange(len(self._table))):
            found.setdefault(int(self._steps[row]), []).append(row)
        return found

    def _in_order(self, rows: Sequence[int] | NDArray[np.intp]) -> list[int]:
        columns = self._columns
        return sorted((int(row) for row in rows), key=lambda row: (
            self._steps[row], worker_order(columns["worker"][row]), columns["attempt"][row], columns["tick"][row], row))

    def _batches(self, rows: Sequence[int] | NDArray[np.intp]) -> tuple[TracedBatch, ...]:
        return tuple(map(self._batch, self._in_order(rows)))

    def _batch(self, row: int) -> TracedBatch:
        columns, indices = self._columns, self._indices(row)
        if indices is None:
            names = tuple(self._named_rows[row][1]) if row in self._named_rows else ()
        else:
            known = self._names.get(self._loader(row), {})
            names = tuple(known.get(index, "") for index in indices.tolist()) if known else ()
        return TracedBatch(
            columns["attempt"][row], columns["worker"][row], columns["tick"][row], int(self._steps[row]),
            columns["optimizer"][row], columns["pass"][row], columns["loader"][row], columns["size"][row],
            columns["first"][row], columns["count"][row], columns["loader_worker"][row], indices,
            names or ("",) * columns["count"][row],
        )

    def _indices(self, row: int) -> NDArray[np.int64] | None:
        text, first = self._columns["order"][row], self._columns["first"][row]
        if text is not None:
            return self._order(text).part(first, first + self._columns["count"][row])
        values = self._table["indices"][row].values
        return None if values is None else values.to_numpy()

    def _order(self, text: str) -> Order:
        order = self._orders.pop(text, None) or Order(text)
        self._orders[text] = order
        if len(self._orders) > _ORDERS_KEPT:
            self._orders.popitem(last=False)
        return order

    def _seeing(
        self, wanted: Callable[[tuple[int, str, str]], NDArray[np.int64]], *, streams: str = "",
        more: Sequence[int] = (),
    ) -> tuple[TracedBatch, ...]:
        found = list(more)
        # Passes of one order side by side, so that each is found out once.
        for row in sorted(range(len(self._table)), key=lambda row: self._columns["order"][row] or ""):
            if self._is_stream[row]:
                if streams and streams in self._batch(row).samples:
                    found.append(row)
                continue
            numbers = wanted(self._loader(row))
            indices = self._indices(row)
            if len(numbers) and indices is not None and np.isin(indices, numbers).any():
                found.append(row)
        return self._batches(found)

    def _same(self, rows: Sequence[int], other: Trace, others: Sequence[int]) -> bool:
        mine, its = self._columns, other._columns
        alike = ("order", "first", "count", "worker", "loader")
        if not (self._names or other._names) and len(rows) == len(others) and all(
            mine["order"][row] is not None and all(mine[name][row] == its[name][twin] for name in alike)
            for row, twin in zip(rows, others, strict=True)
        ):
            return True
        with_names = bool(self._names and other._names)
        return _fed(self._batches(rows), with_names) == _fed(other._batches(others), with_names)

    def _known_steps(self) -> str:
        steps = self.steps
        if not len(steps):
            return NO_TRACE
        return f"Recorded steps: {steps[0]} to {steps[-1]} ({len(steps)})."


def _fed(batches: Sequence[TracedBatch], with_names: bool) -> list[tuple[str, str, str]]:
    """Return all samples of a step, however they were split into batches."""
    return [(batch.worker, sample, name if with_names else "")
            for batch in batches for sample, name in zip(batch.samples, batch.names, strict=True)]

