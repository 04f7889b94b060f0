"""Inventory of a run: for each key, its steps and its last record."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barograph.model.key import Key, Kind, kind_from_name
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.format.events import dictionary_column
from barograph.runs.format.merging import MERGED_KINDS
from barograph.runs.reading.moment import view_from_rows
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.view import StepView, group_of, worker_order


@dataclass(frozen=True, slots=True)
class Entry:
    """One key in one mode.

    Attributes:
        key: The key.
        mode: The mode.
        layer: Class of its module; "" outside of modules.
        dtype: Type of the elements; "" for plain numbers.
        steps: Number of different steps.
        first_step, last_step: First and last step. For a tensor split over ranks, the last one that all have recorded.
        summary: Summary at the last step, merged over workers; None for plain numbers, and if a worker's part of a
            split tensor is missing.
        value: The plain number of the last step; None for tensors.
        saved: Whether the whole tensor was saved at the last step.
        position: Its position among the tensors of its kind at the last step: outputs of layers are in the order in
            which the layers ran. -1 for plain numbers.
        optimizer: Optimizer of the last step; "" if the script has one.
    """

    key: Key
    mode: Mode
    layer: str
    dtype: str
    steps: int
    first_step: int
    last_step: int
    summary: Summary | None
    value: float | None
    saved: bool
    position: int = -1
    optimizer: str = ""


def inventory(run: RunReader, kind: Kind | str | None = None, path: str = "*") -> list[Entry]:
    """Return the inventory of a run, sorted by key and mode; replicas are those of one worker.

    Args:
        run: The run.
        kind: Only this kind.
        path: Only paths matching this shell pattern.

    Raises:
        UnknownName: There is no such kind.
        StoreError: The store cannot be read.
    """
    wanted = kind_from_name(kind) if kind is not None else None
    kinds = [wanted] if wanted is not None else sorted({key.kind for key in run.keys(path=path)})
    return sorted(
        (entry for kind in kinds for entry in _entries(run, kind, path)),
        key=lambda item: (item.key.kind, natural_order(item.key.path), item.mode),
    )


def natural_order(path: str) -> list[tuple[int, str]]:
    """Return the sort key of a path, so that block 2 comes before block 10.

    Example:
        >>> sorted(["h.10.fc", "h.2.fc"], key=natural_order)
        ['h.2.fc', 'h.10.fc']
    """
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path)]


def contributing(workers: Iterable[str]) -> list[str]:
    """Return the workers whose records are used: all ranks, or else the first process.

    Example:
        >>> contributing(["r10", "r2"]), contributing(["p1", "p0"])
        (['r2', 'r10'], ['p0'])
    """
    in_order = by_precedence(workers)
    return [name for name in in_order if group_of(name) == "r"] or in_order[:1]


def by_precedence(workers: Iterable[str]) -> list[str]:
    """Return workers by precedence: ranks before other processes."""
    return sorted(workers, key=lambda name: (group_of(name) != "r", worker_order(name)))


def _entries(run: RunReader, kind: Kind, path: str) -> Iterator[Entry]:
    # First find the records of each key, which takes a few numbers per row; then read only the last steps.
    series = _Series(kind, run.arrow(kind, path, columns=_WHERE))
    if not len(series.starts):
        return iter(())
    return _plain_entries(kind, series) if series.plain else _tensor_entries(run, kind, path, series)


def _plain_entries(kind: Kind, series: _Series) -> Iterator[Entry]:
    """Yield the entries of plain numbers; there may be a hundred thousand, each with a different last step."""
    for path, moment, steps, first, value in zip(
        series.paths(), series.last(), series.counts(), series.first_steps(), series.last_values(), strict=True
    ):
        yield Entry(Key(kind, path), moment.mode, "", "", steps, first, moment.step, summary=None, value=value,
                    saved=False, optimizer=moment.optimizer)


def _tensor_entries(run: RunReader, kind: Kind, path: str, series: _Series) -> Iterator[Entry]:
    last = series.last()
    views = _views(run.arrow(kind, path, start=min(moment.step for moment in last)), set(last))
    positions = {
        id(view): {subject.key: at for at, subject in enumerate(view.columns(kind, histograms=False).subjects)}
        for found in views.values() for view in found
    }
    saved = {id(view): view.tensors().keys() for found in views.values() for view in found}
    for path_, moment, steps, first in zip(series.paths(), last, series.counts(), series.first_steps(), strict=True):
        key = Key(kind, path_)
        view = next((view for view in views.get(moment, ()) if view.subject(key) or view.scalar(key) is not None), None)
        subject = view.subject(key) if view else None
        yield Entry(
            key, moment.mode, subject.layer if subject else "", subject.dtype if subject else "", steps, first,
            moment.step,
            summary=view.summary(key) if view else None,
            value=view.scalar(key) if view else None,
            saved=view is not None and key in saved[id(view)],
            position=positions[id(view)].get(key, -1) if view else -1,
            optimizer=moment.optimizer,
        )


_WHERE = (
    "attempt", "worker", "tick", "step", "optimizer", "mode", "path", "shard", "tensor", "skipped", "value", "count",
)


class _Moment(NamedTuple):
    """Identity of a step."""

    mode: Mode
    optimizer: str
    step: int


class _Series:
    """The rows of one kind, sorted by path, mode and time.

    Attributes:
        starts: First row of each series.
        plain: Whether all are plain numbers, of which one worker's are used.
    """

    def __init__(self, kind: Kind, table: pa.Table) -> None:
        paths, modes, optimizers, workers = (
            dictionary_column(table, name) for name in ("path", "mode", "optimizer", "worker"))
        self._paths, self._modes, self._optimizers = paths.texts, modes.texts, optimizers.texts
        series = paths.codes * len(modes.texts) + modes.codes
        attempt, tick, step = (table[name].to_numpy() for name in ("attempt", "tick", "step"))
        order = np.lexsort((tick, attempt, series))
        self._series, self._step, self._optimizer = series[order], step[order], optimizers.codes[order]
        self._attempt = attempt[order]
        self._worker = workers.codes[order]
        self._worker_names = workers.texts
        self._shard = table["shard"].to_numpy()[order]
        self._in_step = table["skipped"].is_valid().to_numpy()[order]
        self._value = table["value"].fill_null(np.nan).to_numpy()[order]
        self.starts = np.flatnonzero(np.diff(self._series, prepend=-1))
        several = len(np.unique(workers.codes)) > 1
        self.plain = not (
            table["value"].null_count or table["tensor"].to_numpy().any() or self._shard.any()
            or table["count"].null_count < len(table) or (several and kind in MERGED_KINDS)
        )

    def paths(self) -> list[str]:
        """Return the path of each series."""
        return [self._paths[code // len(self._modes)] for code in self._series[self.starts].tolist()]

    def last(self) -> list[_Moment]:
        """Return the moment at which each series was recorded last, in time."""
        return [
            _Moment(Mode(self._modes[series % len(self._modes)]), self._optimizers[optimizer], step)
            for series, optimizer, step in zip(*(
                column[self._last].tolist() for column in (self._series, self._optimizer, self._step)), strict=True)
        ]

    def last_values(self) -> list[float]:
        """Return the last value of each series of plain numbers: of the first rank, or else the first process; of
        several records at that moment the last one, and a step's record rather than a logged number."""
        length = np.diff(np.append(self.starts, len(self._series)))
        then = np.flatnonzero(
            (self._step == np.repeat(self._step[self._last], length))
            & (self._optimizer == np.repeat(self._optimizer[self._last], length))
        )
        place = {name: at for at, name in enumerate(by_precedence(self._worker_names))}
        of_worker = np.array([place[name] for name in self._worker_names])[self._worker[then]]
        # Rows of a series are in order of time; otherwise equal ones keep the later one.
        order = then[np.lexsort((then, self._in_step[then], self._attempt[then], -of_worker, self._series[then]))]
        ends = np.flatnonzero(np.diff(self._series[order], append=-1))
        values: list[float] = self._value[order[ends]].tolist()
        return values

    @cached_property
    def _last(self) -> NDArray[np.intp]:
        """The last row of each series."""
        stops = np.append(self.starts[1:], len(self._series))
        if not self._shard.any():
            return stops - 1
        rows = zip(self.starts.tolist(), stops.tolist(), strict=True)
        return np.array([self._last_row(start, stop) for start, stop in rows], np.intp)

    def _last_row(self, start: int, stop: int) -> int:
        if not self._shard[start:stop].any():
            return stop - 1
        # One rank may be ahead of another, and only all their parts together are a figure of the tensor.
        workers = self._worker[start:stop]
        last = [stop - 1 - int(np.argmax(workers[::-1] == worker)) for worker in np.unique(workers)]
        return min(last, key=lambda row: int(self._step[row]))

    def first_steps(self) -> list[int]:
        """Return the smallest step of each series."""
        steps: list[int] = np.minimum.reduceat(self._step, self.starts).tolist()
        return steps

    def counts(self) -> list[int]:
        """Return how many steps each series has; those of two optimizers are different ones."""
        order = np.lexsort((self._step, self._optimizer, self._series))
        what = np.stack([self._series, self._optimizer, self._step])[:, order]
        new = np.concatenate([[True], (what[:, 1:] != what[:, :-1]).any(axis=0)])
        counts: list[int] = np.add.reduceat(new.astype(np.int64), self.starts).tolist()
        return counts


def _views(table: pa.Table, moments: Collection[_Moment]) -> dict[_Moment, list[StepView]]:
    """Return the records of each moment: all ranks in one view, each process without rank in its own."""
    modes, optimizers, workers = (dictionary_column(table, name) for name in ("mode", "optimizer", "worker"))
    steps = table["step"].to_numpy()
    views: dict[_Moment, list[StepView]] = {}
    for moment in moments:
        if moment.mode.value not in modes.texts or moment.optimizer not in optimizers.texts:
            continue  # gone meanwhile, as the run's settings ask
        then = (
            (steps == moment.step) & (modes.codes == modes.texts.index(moment.mode.value))
            & (optimizers.codes == optimizers.texts.index(moment.optimizer))
        )
        present = [workers.texts[code] for code in np.unique(workers.codes[then]).tolist()]
        ranks = contributing(present) if any(group_of(name) == "r" for name in present) else []
        for together in [ranks, *([name] for name in sorted(set(present) - set(ranks), key=worker_order))]:
            parts = {name: [table.filter(pa.array(then & (workers.codes == workers.texts.index(name))))]
                     for name in together}
            view = view_from_rows(parts) if parts else None
            if view is not None:
                views.setdefault(moment, []).append(view)
    return views
