"""What rules look at: everything recorded in one step, over the workers that share it."""

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
        subjects: What each row is about, in the order in which the worker first met them: layers as they ran.
        moments: Shape (len(subjects), 10), columns as in `MOMENT_FIELDS`. Not to be written to.
        exponents: Shape (len(subjects), 512); a row is all zero where that subject has no histogram. None
            where no subject has one.
    """

    subjects: tuple[Subject, ...]
    moments: NDArray[np.float64]
    exponents: NDArray[np.int64] | None = None


class StepView:
    """Everything that was recorded in one step by the workers of one group.

    The ranks of one training are a group, named "r"; a process without rank is a group of its own, named
    as the worker. Shards and activations are merged over the workers; of replicas the first worker's are
    shown, and `by_worker` shows all.

    Attributes:
        step: Which one, as the first worker counted and timed it.
        group: "r", or the worker's name.
        attempt: How often the run had been started before; steps may go back where this goes up.
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
        """Return the view of literal records, for tests of rules.

        Args:
            step: A number stands for that training step, with the same tick.
            records: Of the one worker "p0". A Summary is a row, a number a scalar.
            layers, dtypes, units: By key; what is not there is "" or absent. Units stand beside a Summary.
            shards: Keys that are one worker's part of a split tensor.
            workers: Instead of `records`, where there are several workers: name to records.
            group: "" names it as the workers say.
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
        """Return the same records as those of another step."""
        return StepView(step, self._rows, group=self.group, attempt=self.attempt, beside=self._beside)

    def with_beside(self, views: Mapping[str, StepView]) -> StepView:
        """Return the same step beside that of other runs, by the place of each."""
        return StepView(self.step, self._rows, group=self.group, attempt=self.attempt, beside=views)

    def beside(self, place: str) -> StepView | None:
        """Return the same step of another run; None where it recorded no such step, or nobody looked.

        Args:
            place: Of the run, as the rule names it (`Rule.other_run`).
        """
        return self._beside.get(place)

    def portable(self, *, histograms: bool) -> StepView:
        """Return the same step as data alone, which another process can be sent.

        Args:
            histograms: Whether the histograms are wanted there.
        """
        rows = {name: rows.portable(histograms=histograms) for name, rows in self._rows.items()}
        beside = {place: view.portable(histograms=histograms) for place, view in self._beside.items()}
        return StepView(self.step, rows, group=self.group, attempt=self.attempt, beside=beside)

    @property
    def rows(self) -> Mapping[str, WorkerRows]:
        """Each worker's own records, by its name. Not to be written to."""
        return self._rows

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers that recorded something in this step."""
        return tuple(self._rows)

    @property
    def kinds(self) -> frozenset[Kind]:
        """Kinds of which anything was recorded in this step."""
        if self._kinds is None:
            self._kinds = frozenset(self.merged().table.rows_of_kind) | self._numbers_by_kind().keys()
        return self._kinds

    def columns(self, kind: Kind, *, histograms: bool = True) -> Columns:
        """Return all subjects of that kind as columns; empty ones where there is none.

        Args:
            kind: Which.
            histograms: Whether to unpack the histograms, too: they are large, and most who look need the
                moments alone.
        """
        merged = self.merged()
        rows = merged.table.rows_of_kind.get(kind)
        if rows is None:
            return Columns((), _no_moments())
        subjects, indices = rows
        if kind not in self._moments:
            # Many rules look at the same few kinds of one step.
            self._moments[kind] = Columns(subjects, merged.moments[indices])
        unpacked = merged.histograms() if histograms else None
        exponents = None if unpacked is None else unpacked[indices]
        if exponents is None or not exponents.any():
            return self._moments[kind]
        return Columns(subjects, self._moments[kind].moments, exponents)

    def summaries(self, kind: Kind, layers: Collection[str] = ()) -> Iterator[tuple[Subject, Summary]]:
        """Yield each subject of that kind, of those layer classes only where any are given, with its Summary."""
        found = self.columns(kind)
        for row, subject in enumerate(found.subjects):
            if not layers or subject.layer in layers:
                exponents = None if found.exponents is None else found.exponents[row]
                yield subject, summary_from_row(found.moments[row], exponents)

    def summary(self, key: Key) -> Summary | None:
        """Return the merged Summary of a key; None where it was not seen in this step."""
        return _summary(self.merged(), key)

    def subject(self, key: Key) -> Subject | None:
        """Return what is known of the tensor behind a key; None where it was not seen in this step."""
        merged = self.merged()
        row = merged.table.row_of_key.get(key)
        return None if row is None else merged.table.subjects[row]

    def scalar(self, key: Key) -> float | None:
        """Return a plain number, or the mean of a loss; None where it was not seen in this step."""
        return self.merged().scalars.get(key)

    def scalars(self, kind: Kind) -> dict[Key, float]:
        """Return the plain numbers of that kind, the means of losses among them. Not to be written to."""
        found = self._scalars.get(kind)
        if found is None:
            found = self._scalars[kind] = dict(self.numbers(kind))
        return found

    def numbers(self, kind: Kind) -> Iterator[tuple[Key, float]]:
        """Yield what `scalars` holds: who only passes over them need not wait for a table of them."""
        keys, values = self._numbers_by_kind().get(kind, _NO_NUMBERS)
        return zip(keys, values, strict=True)

    def merged(self) -> WorkerRows:
        """Return the records of all workers as one worker's. Not to be written to."""
        if self._merged is None:
            rows = tuple(self._rows.values())
            self._merged = merge_workers(rows) if len(rows) > 1 or rows[0].table.has_parts else rows[0]
        return self._merged

    def units(self, key: Key) -> UnitSummaries | None:
        """Return the per-unit summaries of a key, merged over workers; None where none were taken."""
        merged = self.merged()
        row = merged.table.row_of_key.get(key)
        return None if row is None else merged.units.get(row)

    def unit_summaries(self, kind: Kind, layers: Collection[str] = ()) -> Iterator[tuple[Subject, UnitSummaries]]:
        """Yield each subject of that kind that has per-unit summaries, with them."""
        merged = self.merged()
        if not merged.units:
            return
        for row in merged.table.rows_in(kind, layers):
            units = merged.units.get(row)
            if units is not None:
                yield merged.table.subjects[row], units

    def by_worker(self, key: Key) -> dict[str, Summary]:
        """Return each worker's own Summary of a key, of those workers that saw it."""
        found = {name: _summary(rows, key) for name, rows in self._rows.items()}
        return {name: summary for name, summary in found.items() if summary is not None}

    def worker_scalars(self, key: Key) -> dict[str, float]:
        """Return each worker's own plain number, of those workers that saw it."""
        return {name: rows.scalars[key] for name, rows in self._rows.items() if key in rows.scalars}

    def tensors(self) -> dict[Key, tuple[str, ...]]:
        """Return the keys whose whole tensor was saved in this step, with the workers that saved it."""
        found: dict[Key, tuple[str, ...]] = {}
        for name, rows in self._rows.items():
            for key in sorted(rows.tensors):
                found[key] = (*found.get(key, ()), name)
        return found

    def _numbers_by_kind(self) -> dict[Kind, tuple[list[Key], list[float]]]:
        """Sort the plain numbers out once: every rule asks every step for its own few kinds."""
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
    """Return the group a worker belongs to: all ranks are one, any other process is its own.

    Example:
        >>> group_of("r3"), group_of("p1")
        ('r', 'p1')
    """
    return "r" if worker.startswith("r") else worker


def worker_order(worker: str) -> tuple[str, int, str]:
    """Return what workers sort by, so that r2 stands before r10."""
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
