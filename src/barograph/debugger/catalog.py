"""The content of a run under smdebug's names: a table of tensors, steps and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.debugger.modes import ModeKeys
from barograph.ingest.smdebug.book import SHAPE, Book, book_in
from barograph.ingest.smdebug.drafting import array_of_number
from barograph.ingest.smdebug.names import reduction_from_name
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.reading.reader import RunReader

Array = NDArray[Any]
Named = tuple[str, bool]
"""A reduction: its name, and whether it is of the magnitudes."""

_COLUMNS = ("worker", "tick", "step", "optimizer", "mode", "kind", "path", "tensor", "value", "count")
_NUMBERED = (Kind.LOSS, Kind.SCALAR)


@dataclass(frozen=True, slots=True)
class Cell:
    """One value that one worker recorded in one step.

    Attributes:
        key, step, mode, optimizer, worker: What to ask the run for.
        number: The plain number; None where it is an array.
        saved: The array was saved whole.
    """

    key: Key
    step: int
    mode: Mode
    optimizer: str
    worker: str
    number: float | None = None
    saved: bool = False


@dataclass(slots=True)
class Entry:
    """The data of one tensor at one step from one worker.

    Attributes:
        value: The tensor, where it was saved as a whole or as a plain number.
        shape: Its shape, where that was saved by itself.
        summary: Its summary, where the run keeps one in place of reductions.
        reductions: Its reductions.
    """

    value: Cell | None = None
    shape: Cell | None = None
    summary: Cell | None = None
    reductions: dict[Named, Cell] = field(default_factory=dict)


@dataclass(slots=True)
class TensorTable:
    """The data of one tensor.

    Attributes:
        steps: Global step to worker to what is known.
    """

    steps: dict[int, dict[str, Entry]] = field(default_factory=dict)

    def entry(self, step: int, worker: str) -> Entry:
        """Return what is known at a step from a worker; made where there was nothing."""
        return self.steps.setdefault(step, {}).setdefault(worker, Entry())


class Catalog:
    """The content of a run at one point in time.

    Args:
        run: The run.

    Attributes:
        tensors: Name to table.
        modes: Global step to its mode, and the step in that mode.
        global_steps: The other way round.
        written_by: Global step to the workers that recorded it.
        workers: The workers that recorded anything, and of an imported run those that it tells of.
        book: What smdebug called everything; None of a run that Barograph recorded by itself.
    """

    def __init__(self, run: RunReader) -> None:
        self._run = run
        self._last: tuple[Cell, Array] | None = None
        self.book: Book | None = book_in(run.store)
        self.tensors: dict[str, TensorTable] = {}
        self.modes: dict[int, tuple[ModeKeys, int]] = {}
        self.global_steps: dict[tuple[ModeKeys, int], int] = {}
        self.written_by: dict[int, set[str]] = {}
        self._names = {key: name for name, key in self.book.naming.keys.items()} if self.book else {}
        self.workers = sorted(self.book.workers.values()) if self.book else []
        rows = run.arrow(columns=_COLUMNS).to_pylist()
        for row in sorted(rows, key=lambda row: int(row["tick"])):
            self._take(row)
        self.workers = sorted({*self.workers, *(name for names in self.written_by.values() for name in names)})

    def array(self, cell: Cell) -> Array:
        """Return the array behind a cell, as it was saved.

        Raises:
            DamagedChunk, StoreError: It cannot be read.
        """
        name = self._names.get(cell.key, "")
        if cell.saved:
            # Rules ask for many reductions of one array.
            if self._last is None or self._last[0] != cell:
                array = self._run.tensor(cell.key, cell.step, mode=cell.mode, worker=cell.worker,
                                         optimizer=cell.optimizer)
                self._last = cell, array
            if self.book and name in self.book.texts:
                return np.array(json.loads(self._last[1].tobytes()))
            return self._last[1].copy()
        form = self.book.numbers.get(name) if self.book else None
        return array_of_number(cell.number or 0.0, form or ("float64", ()))

    def summary(self, cell: Cell) -> Summary:
        """Return the summary behind a cell."""
        return self._run.summary(cell.key, cell.step, mode=cell.mode, worker=cell.worker, optimizer=cell.optimizer)

    def _take(self, row: Mapping[str, Any]) -> None:
        key = Key(Kind(row["kind"]), row["path"])
        if key.kind in (Kind.MACHINE, Kind.TIME):
            return
        saved, count = bool(row["tensor"]), row["count"]
        number = None if saved or count is not None or row["value"] is None else float(row["value"])
        mode = Mode(row["mode"])
        cell = Cell(key, int(row["step"]), mode, row["optimizer"], row["worker"], number, saved)
        if self.book is None:
            self._place_own(cell, int(row["tick"]), count)
            return
        step = int(row["tick"])
        self._note(step, ModeKeys[self.book.mode_of(mode, cell.optimizer)], cell.step)
        worker = self.book.workers.get(cell.worker, cell.worker)
        self.written_by.setdefault(step, set()).add(worker)
        name = self._names.get(key)
        if name is None:
            tensor = self._names.get(Key(key.kind, key.path.removesuffix(SHAPE)))
            if tensor is not None:
                self._table(tensor).entry(step, worker).shape = cell
            return
        reduction = reduction_from_name(name)
        if reduction is None:
            entry = self._table(name).entry(step, worker)
            if saved or (entry.value is None and number is not None):
                entry.value = cell
        else:
            reductions = self._table(reduction.tensor).entry(step, worker).reductions
            named = reduction.name, reduction.absolute
            if saved or named not in reductions:
                reductions[named] = cell

    def _place_own(self, cell: Cell, tick: int, count: int | None) -> None:
        """Note what Barograph recorded by itself, under the name that smdebug would have given it."""
        if cell.number is not None and cell.key.kind not in _NUMBERED:
            return
        self._note(tick, ModeKeys[cell.mode.name], cell.step)
        worker = f"worker_{cell.worker[1:]}"
        self.written_by.setdefault(tick, set()).add(worker)
        entry = self._table(name_of_own(cell.key)).entry(tick, worker)
        if cell.saved or cell.number is not None:
            entry.value = cell
        if count is not None:
            entry.summary = cell

    def _note(self, step: int, mode: ModeKeys, mode_step: int) -> None:
        self.global_steps.setdefault(self.modes.setdefault(step, (mode, mode_step)), step)

    def _table(self, name: str) -> TensorTable:
        return self.tensors.setdefault(name, TensorTable())


def name_of_own(key: Key) -> str:
    """Return smdebug's name for a Barograph key, without the class of the model.

    Example:
        >>> name_of_own(Key(Kind.GRADIENT, "fc1.weight")), name_of_own(Key(Kind.OUTPUT, "relu"))
        ('gradient/fc1.weight', 'relu_output_0')
    """
    return _OWN.get(key.kind, f"{key.kind.value}/{{}}").format(key.path)


_OWN: Mapping[Kind, str] = {
    Kind.WEIGHT: "{}", Kind.GRADIENT: "gradient/{}", Kind.INPUT: "{}_input_0", Kind.OUTPUT: "{}_output_0",
    Kind.LOSS: "{}_loss_output_0", Kind.SCALAR: "scalar/{}", Kind.CUSTOM: "{}",
}
