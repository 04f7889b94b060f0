"""The input of rules: everything recorded in one step, over the workers that share it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from barograph.measures.summary import row_from_summary, summary_from_row
from barograph.model.key import Key, Kind
from barograph.model.records import Subject, UnitSummaries
from barograph.model.step import Step
from barograph.model.summary import MOMENT_FIELDS, Summary
from barograph.runs.format.merging import means_of_rows, merge_workers
from barograph.runs.format.rows import SubjectTable, WorkerRows


@dataclass(frozen=True, slots=True)
class Columns:
    """All subjects of one kind in one step.

    Attributes:
        subjects: The subject of each row, in the order in which the worker first recorded them: layers as they ran.
        moments: Shape (len(subjects), 10), columns as in `MOMENT_FIELDS`. Read-only.
        exponents: Shape (len(subjects), 512); rows of subjects without histogram are zero. None: no histograms.
    """

    subjects: tuple[Subject, ...]
    moments: NDArray[np.float64]
    exponents: NDArray[np.int64] | None = None


class StepView:
    """Everything that the workers of one group recorded in one step.

    The ranks of a training form the group "r"; a process without rank is a group of its own, named after the worker.
    Shards and activations are merged over the workers. Replicas are taken from the first worker; `by_worker` returns
    all.

    Attributes:
        step: The step, as the first worker counted and timed it.
        group: "r", or the worker's name.
        attempt: Number of earlier starts of the run. Step numbers can decrease when it increases.
    """

    __slots__ = (
        "_beside", "_kinds", "_merged", "_moments", "_numbers", "_rows", "_scalars", "attempt", "group", "step",
    )

    def __init__(
        self, step: Step, rows: Mapping[str, WorkerRows], *, group: str, attempt: int = 0,
        beside: Mapping[str, StepView] | None = None,
    ) -> None:
        self._beside = beside or {}
        self.step = step
        self.group = group
        self.attempt = attempt
        self._rows = rows
        self._merged: WorkerRows | None = None
        self._moments: dict[Kind, Columns] = {}
        self._numbers: dict[Kind, tuple[list[Key], list[float]]] | None = None
        self._scalars: dict[Kind, dict[Key, float]] = {}
        self._kinds: frozenset[Kind] | None = None

    @classmethod
    def of(
        cls,
        step: Step | int,
        records: Mapping[Key, Summary | float] | None = None,
        *,
        layers: Mapping[Key, str] | None = None,
        dtypes: Mapping[Key, str] | None = None,
        units: Mapping[Key, UnitSummaries] | None = None,
        shards: Collection[Key] = (),
        workers: Mapping[str, Mapping[Key, Summary | float]] | None = None,
        group: str = "",
        attempt: int = 0,
    ) -> Self:
        """Return a view of literal records, for tests of rules.

        Args:
            step: A Step, or the number of a training step.
            records: Records of one worker, "p0". A Summary becomes a row, a number a scalar.
            layers, dtypes, units: By key; default "" or absent. Units accompany a Summary.
            shards: Keys that are one worker's part of a split tensor.
            workers: Worker name to records, instead of `records`.
            group: "": derived from the workers.
            attempt: See `StepView`.

        Example:
            >>> loss = Key(Kind.LOSS, "loss")
            >>> StepView.of(3, {loss: 0.25}).scalar(loss)
            0.25
        """
        by_worker = workers if workers is not None else {"p0": records or {}}
        first = min(by_worker, key=worker_order, default="p0")
        rows = {
            name: _rows_of(by_worker[name], layers or {}, dtypes or {}, units or {}, shards)
            for name in sorted(by_worker, key=worker_order)
        }
        when = Step(tick=step, number=step) if isinstance(step, int) else step
        return cls(when, rows, group=group or group_of(first), attempt=attempt)

    def __repr__(self) -> str:
        return f"StepView({self.step!r}, group={self.group!r}, workers={self.workers!r})"

    def at(self, step: Step) -> StepView:
        """Return the same records with another step."""
        return StepView(step, self._rows, group=self.group, attempt=self.attempt, beside=self._beside)

    def with_beside(self, views: Mapping[str, StepView]) -> StepView:
        """Return the same step with the same step of other runs, by their URLs."""
        return StepView(self.step, self._rows, group=self.group, attempt=self.attempt, beside=views)

    def beside(self, place: str) -> StepView | None:
        """Return the same step of another run; None if that run did not record it or was not loaded.

        Args:
            place: The other run, as the rule names it (`Rule.other_run`).
        """
        return self._beside.get(place)

    def portable(self, *, histograms: bool) -> StepView:
        """Return the same step as plain data, to send to another process.

        Args:
            histograms: Include the histograms.
        """
        rows = {name: rows.portable(histograms=histograms) for name, rows in self._rows.items()}
        beside = {place: view.portable(histograms=histograms) for place, view in self._beside.items()}
        return StepView(self.step, rows, group=self.group, attempt=self.attempt, beside=beside)

    @property
    def rows(self) -> Mapping[str, WorkerRows]:
        """Records by worker name. Read-only."""
        return self._rows

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers that recorded this step."""
        return tuple(self._rows)

    @property
    def kinds(self) -> frozenset[Kind]:
        """Kinds recorded in this step."""
        if self._kinds is None:
            self._kinds = frozenset(self.merged().table.rows_of_kind) | self._numbers_by_kind().keys()
        return self._kinds

    def columns(self, kind: Kind, *, histograms: bool = True) -> Columns:
        """Return all subjects of a kind as columns; empty columns if there are none.

        Args:
            histograms: Unpack the histograms, which are large; most callers need only the moments.
        """
        merged = self.merged()
        rows = merged.table.rows_of_kind.get(kind)
        if rows is None:
            return Columns((), _no_moments())
        subjects, indices = rows
        if kind not in self._moments:
            # Many rules read the same few kinds of a step.
            self._moments[kind] = Columns(subjects, merged.moments[indices])
        unpacked = merged.histograms() if histograms else None
        exponents = None if unpacked is None else unpacked[indices]
        if exponents is None or not exponents.any():
            return self._moments[kind]
        return Columns(subjects, self._moments[kind].moments, exponents)

    def summaries(self, kind: Kind, layers: Collection[str] = ()) -> Iterator[tuple[Subject, Summary]]:
        """Yield each subject of a kind with its Summary; with layer classes, only subjects of these."""
        found = self.columns(kind)
        for row, subject in enumerate(found.subjects):
            if not layers or subject.layer in layers:
                exponents = None if found.exponents is None else found.exponents[row]
                yield subject, summary_from_row(found.moments[row], exponents)

    def summary(self, key: Key) -> Summary | None:
        """Return the merged Summary of a key; None if it was not recorded in this step."""
        return _summary(self.merged(), key)

    def subject(self, key: Key) -> Subject | None:
        """Return the metadata of a key's tensor; None if it was not recorded in this step."""
        merged = self.merged()
        row = merged.table.row_of_key.get(key)
        return None if row is None else merged.table.subjects[row]

    def scalar(self, key: Key) -> float | None:
        """Return a plain number, or the mean of a loss; None if it was not recorded in this step."""
        return self.merged().scalars.get(key)

    def scalars(self, kind: Kind) -> dict[Key, float]:
        """Return the plain numbers of a kind; losses as their means. Read-only."""
        found = self._scalars.get(kind)
        if found is None:
            found = self._scalars[kind] = dict(self.numbers(kind))
        return found

    def numbers(self, kind: Kind) -> Iterator[tuple[Key, float]]:
        """Yield the items of `scalars` without building a dictionary."""
        keys, values = self._numbers_by_kind().get(kind, _NO_NUMBERS)
        return zip(keys, values, strict=True)

    def merged(self) -> WorkerRows:
        """Return the records of all workers, merged into one worker's. Read-only."""
        if self._merged is None:
            rows = tuple(self._rows.values())
            self._merged = merge_workers(rows) if len(rows) > 1 or rows[0].table.has_parts else rows[0]
        return self._merged

    def units(self, key: Key) -> UnitSummaries | None:
        """Return the per-unit summaries of a key, merged over workers; None if not recorded."""
        merged = self.merged()
        row = merged.table.row_of_key.get(key)
        return None if row is None else merged.units.get(row)

    def unit_summaries(self, kind: Kind, layers: Collection[str] = ()) -> Iterator[tuple[Subject, UnitSummaries]]:
        """Yield each subject of a kind that has per-unit summaries, with them."""
        merged = self.merged()
        if not merged.units:
            return
        for row in merged.table.rows_in(kind, layers):
            units = merged.units.get(row)
            if units is not None:
                yield merged.table.subjects[row], units

    def by_worker(self, key: Key) -> dict[str, Summary]:
        """Return the Summary of a key from each worker that recorded it."""
        found = {name: _summary(rows, key) for name, rows in self._rows.items()}
        return {name: summary for name, summary in found.items() if summary is not None}

    def worker_scalars(self, key: Key) -> dict[str, float]:
        """Return the plain number of a key from each worker that recorded it."""
        return {name: rows.scalars[key] for name, rows in self._rows.items() if key in rows.scalars}

    def tensors(self) -> dict[Key, tuple[str, ...]]:
        """Return the keys of the tensors saved in this step, with the workers that saved them."""
        found: dict[Key, tuple[str, ...]] = {}
        for name, rows in self._rows.items():
            for key in sorted(rows.tensors):
                found[key] = (*found.get(key, ()), name)
        return found

    def _numbers_by_kind(self) -> dict[Kind, tuple[list[Key], list[float]]]:
        """Group the plain numbers once: every rule reads its own few kinds of every step."""
        if self._numbers is None:
            found: dict[Kind, tuple[list[Key], list[float]]] = {}
            for key, value in self.merged().scalars.items():
                of_kind = found.get(key.kind)
                if of_kind is None:
                    of_kind = found[key.kind] = [], []
                of_kind[0].append(key)
                of_kind[1].append(value)
            self._numbers = found
        return self._numbers


_NO_NUMBERS: tuple[list[Key], list[float]] = [], []


def group_of(worker: str) -> str:
    """Return the group of a worker: "r" for all ranks, its own name for any other process.

    Example:
        >>> group_of("r3"), group_of("p1")
        ('r', 'p1')
    """
    return "r" if worker.startswith("r") else worker


def worker_order(worker: str) -> tuple[str, int, str]:
    """Return the sort key of a worker: r2 comes before r10."""
    digits = worker[1:]
    return worker[:1], int(digits) if digits.isdigit() else -1, worker


def _no_moments() -> NDArray[np.float64]:
    return np.empty((0, len(MOMENT_FIELDS)))


def _summary(rows: WorkerRows, key: Key) -> Summary | None:
    row = rows.table.row_of_key.get(key)
    if row is None:
        return None
    histograms = rows.histograms()
    return summary_from_row(rows.moments[row], None if histograms is None else histograms[row])


def _rows_of(
    records: Mapping[Key, Summary | float],
    layers: Mapping[Key, str],
    dtypes: Mapping[Key, str],
    units: Mapping[Key, UnitSummaries],
    shards: Collection[Key],
) -> WorkerRows:
    summaries = {key: value for key, value in records.items() if isinstance(value, Summary)}
    subjects = tuple(Subject(key, layers.get(key, ""), dtypes.get(key, ""), key in shards) for key in summaries)
    pairs = [row_from_summary(summary) for summary in summaries.values()]
    moments = np.stack([pair[0] for pair in pairs]) if pairs else _no_moments()
    exponents = np.stack([pair[1] for pair in pairs]) if any(item.exponents for item in summaries.values()) else None
    scalars = {key: float(value) for key, value in records.items() if not isinstance(value, Summary)}
    means = means_of_rows(moments).tolist()
    scalars.update({key: mean for key, mean in zip(summaries, means, strict=True) if key.kind == Kind.LOSS})
    table = SubjectTable(subjects)
    return WorkerRows(
        table, moments, lambda: exponents,
        {table.row_of_key[key]: item for key, item in units.items() if key in summaries}, scalars,
    )
