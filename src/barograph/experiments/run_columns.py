"""Columns that a list of runs can have: parameters, metrics and tags, and whether the runs differ in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, func, select

from barograph.experiments.echoes import echoed
from barograph.experiments.packing import metrics_in, numbers_in, texts_in
from barograph.experiments.schema import FINDINGS, ITEMS, MEMBERS, METRIC_SHEETS, SHEETS
from barograph.experiments.search.writing_fields import field_text
from barograph.experiments.sheets import names_of
from barograph.experiments.writing import in_parts

STATISTICS_SHOWN = ("last", "min", "max")
"""Statistics of a metric that are offered as columns."""

_MOST_IN_ONE = 5000
_MOST_USUAL_PARAMETERS, _MOST_USUAL_METRICS = 8, 6
_FACTS = {"state": "state", "created_unix": "created", "duration": "duration", "steps": "steps", "host": "host",
          "by": "user", "branch": "code.branch", "commit": "code.commit", "dirty": "code.dirty", "command": "command",
          "starred": "starred", "description": "description", "place": "place"}
_ALWAYS = ("created_unix",)


@dataclass(frozen=True, slots=True)
class RunColumn:
    """A column that a list of runs can have.

    Attributes:
        name: As in a `ComponentTable`: "state", "params.lr", "metrics.loss.min".
        field: The same as a search has it, for sorting; "" if runs cannot be sorted by it.
        label: Heading.
        group: "run", "params", "metrics" or "tags".
        runs: Number of runs that have a value.
        differs: Whether the runs differ in it; a missing value differs from any other.
        low, high: Extremes, if every value is a finite number; else None.
    """

    name: str
    field: str
    label: str
    group: str
    runs: int
    differs: bool
    low: float | None = None
    high: float | None = None


def columns_in(connection: Connection, ids: Sequence[int]) -> list[RunColumn]:
    """Return the columns that these runs have values in: facts, then parameters, metrics and tags by name.

    Of a metric these are the columns of its last value, its minimum and its maximum.

    Args:
        connection: Connection to the catalog.
        ids: Row numbers of the runs.
    """
    return [*fact_columns_in(connection, ids), *recorded_columns_in(connection, ids)]


def fact_columns_in(connection: Connection, ids: Sequence[int]) -> list[RunColumn]:
    """Return the columns of facts that these runs have values in, such as state and host; arguments as `columns_in`."""
    return list(_Reading(connection, ids).facts())


def recorded_columns_in(connection: Connection, ids: Sequence[int]) -> list[RunColumn]:
    """Return the other columns: what `usual_columns` chooses from; arguments as `columns_in`."""
    return list(_Reading(connection, ids).recorded())


def usual_columns(columns: Sequence[RunColumn], *, runs: int) -> list[str]:
    """Return the columns to show first: state, the parameters and metrics in which runs differ, findings and age.

    Args:
        columns: Those of `recorded_columns_in`; those of `fact_columns_in` are ignored.
        runs: Number of runs. Of a single run, which cannot differ, everything is shown.
    """
    differing = [column for column in columns if column.differs or runs == 1]
    parameters = [column.name for column in differing if column.group == "params"]
    metrics = _usual_metrics(differing)
    tags = [column.name for column in differing if column.group == "tags" and column.name != COLOR]
    return ["state", "findings", *metrics[:_MOST_USUAL_METRICS], *parameters[:_MOST_USUAL_PARAMETERS],
            *(column.name for column in differing if column.name == "trials"), *tags[:2], "created_unix"]


COLOR = "tags.color"
"""The tag with which a user chooses the color of a run."""

_COLOR = re.compile(r"#[0-9a-fA-F]{6}")


def color_in(tag: str | None) -> str:
    """Return the color that the tag `color` names; "" if it names none.

    Example:
        >>> color_in("#0f655d"), color_in("red"), color_in(None)
        ('#0f655d', '', '')
    """
    return tag if tag and _COLOR.fullmatch(tag) else ""


def _usual_metrics(columns: Iterable[RunColumn]) -> list[str]:
    found = [column for column in columns if column.group == "metrics" and column.name.endswith(".last")]
    names = [column.label.removesuffix(" last") for column in found]
    repeated = echoed(names)
    common = sorted((column for column, name in zip(found, names, strict=True) if name not in repeated),
                    key=lambda column: -column.runs)
    return [column.name for column in common]


class _Reading:
    def __init__(self, connection: Connection, ids: Sequence[int]) -> None:
        self._connection = connection
        self._ids = np.sort(np.asarray(ids, np.int64))
        total = connection.execute(select(func.count()).select_from(ITEMS)).scalar_one()
        self._most = 2 * len(ids) >= total

    def recorded(self) -> Iterator[RunColumn]:
        if not len(self._ids):
            return
        yield from self._related()
        sheets = list(self._rows(select(SHEETS), SHEETS.c.item_id))
        parameters, tags = self._texts(sheets)
        numbers = self._mine(numbers_in(sheet[1] for sheet in sheets))
        metrics = self._mine(metrics_in(row[1] for row in self._rows(select(METRIC_SHEETS), METRIC_SHEETS.c.item_id)))
        spans, metric_spans = _spans(numbers, "number"), _spans(metrics, *STATISTICS_SHOWN)
        self._names = names_of(self._connection, list({*parameters, *spans, *tags, *metric_spans}))
        yield from self._by_name(spans.keys() | parameters.keys(), lambda number: self._parameter(
            number, spans.get(number), parameters.get(number)))
        for number in sorted(metric_spans, key=self._names.__getitem__):
            yield from self._metric(self._names[number], metric_spans[number])
        yield from self._by_name(tags.keys(), lambda number: self._text_column("tags", number, tags[number]))

    def _by_name(self, numbers: Iterable[int], make: Any) -> Iterator[RunColumn]:
        yield from (make(number) for number in sorted(numbers, key=self._names.__getitem__))

    def _rows(self, statement: Select[Any], number: Any) -> Iterator[Sequence[Any]]:
        """Yield the rows of the runs; possibly those of others if most are requested, which is faster."""
        if self._most:
            yield from self._connection.execute(statement).all()
            return
        for some in in_parts(self._ids.tolist(), _MOST_IN_ONE):
            yield from self._connection.execute(statement.where(number.in_(some))).all()

    def _mine(self, records: NDArray[Any]) -> NDArray[Any]:
        return records[np.isin(records["item"], self._ids)] if self._most else records

    def facts(self) -> Iterator[RunColumn]:
        if not len(self._ids):
            return
        names = [name for name in _FACTS if name != "duration"]
        duration = ITEMS.c.ended_unix - ITEMS.c.started_unix
        mine = set(self._ids.tolist())
        rows = [row for row in self._rows(select(ITEMS.c.id, *(ITEMS.c[name] for name in names), duration), ITEMS.c.id)
                if row[0] in mine]
        for name, values in zip((*names, "duration"), list(zip(*rows, strict=True))[1:], strict=True):
            there = [value for value in values if value is not None and value != ""]
            if there or name in _ALWAYS:
                yield RunColumn(name, _FACTS[name], _FACTS[name], "run", len(there),
                                len(there) < len(rows) or len(set(there)) > 1)

    def _related(self) -> Iterator[RunColumn]:
        mine = set(self._ids.tolist())
        trials: dict[int, set[str]] = {}
        members = select(ITEMS.c.id, MEMBERS.c.trial).join(MEMBERS, MEMBERS.c.component == ITEMS.c.uid)
        for item, trial in self._rows(members, ITEMS.c.id):
            trials.setdefault(item, set()).add(trial)
        findings: dict[int, set[str]] = {}
        for item, rule in self._rows(select(FINDINGS.c.item_id, FINDINGS.c.rule), FINDINGS.c.item_id):
            findings.setdefault(item, set()).add(rule)
        for name, label, found in (("trials", "trial", trials), ("findings", "findings", findings)):
            values = [frozenset(of) for item, of in found.items() if item in mine]
            if values or name == "findings":
                yield RunColumn(name, "", label, "run", len(values),
                                0 < len(values) < len(mine) or len(set(values)) > 1)

    def _texts(self, sheets: Sequence[Sequence[Any]]) -> tuple[dict[int, _Texts], dict[int, _Texts]]:
        """Return the parameters that are no numbers, and the tags."""
        mine = set(self._ids.tolist())
        counts: dict[str, int] = {}
        for item, _, texts in sheets:
            if item in mine:
                counts[texts] = counts.get(texts, 0) + 1
        parameters: dict[int, _Texts] = {}
        tags: dict[int, _Texts] = {}
        for count, parts in zip(counts.values(), texts_in(list(counts)), strict=True):
            for found, part in ((parameters, parts[0]), (tags, parts[1])):
                for name, value in part.items():
                    column = found.setdefault(int(name), _Texts(0, set()))
                    column.runs += count
                    column.values.add(repr(value))
        return parameters, tags

    def _parameter(self, number: int, span: _Span | None, texts: _Texts | None) -> RunColumn:
        if span is None:
            assert texts is not None
            return self._text_column("params", number, texts)
        runs = span.runs + (texts.runs if texts is not None else 0)
        low, high = span.bounds["number"]
        alone = texts is None and np.isfinite(low) and np.isfinite(high)
        name = self._names[number]
        return RunColumn(f"params.{name}", field_text("params", name), name, "params", runs,
                         runs < len(self._ids) or texts is not None or low != high,
                         low if alone else None, high if alone else None)

    def _text_column(self, group: str, number: int, texts: _Texts) -> RunColumn:
        name = self._names[number]
        return RunColumn(f"{group}.{name}", field_text(group, name), name, group, texts.runs,
                         texts.runs < len(self._ids) or len(texts.values) > 1)

    def _metric(self, name: str, span: _Span) -> Iterator[RunColumn]:
        for statistic, (low, high) in span.bounds.items():
            finite = bool(np.isfinite(low) and np.isfinite(high))
            yield RunColumn(f"metrics.{name}.{statistic}", field_text("metrics", name, statistic),
                            f"{name} {statistic}", "metrics", span.runs, span.runs < len(self._ids) or low != high,
                            low if finite else None, high if finite else None)


@dataclass(slots=True)
class _Texts:
    runs: int
    values: set[str]


@dataclass(frozen=True, slots=True)
class _Span:
    runs: int
    bounds: Mapping[str, tuple[float, float]]


def _spans(records: NDArray[Any], *fields: str) -> dict[int, _Span]:
    """Return number of records and extremes by name; NaN is ignored where there are other values."""
    if not len(records):
        return {}
    order = np.argsort(records["name"], kind="stable")
    records = records[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(records["name"])) + 1))
    counts = np.diff(np.append(starts, len(records)))
    bounds = {field: (np.fmin.reduceat(records[field], starts), np.fmax.reduceat(records[field], starts))
              for field in fields}
    return {int(name): _Span(int(count), {field: (float(low[at]), float(high[at]))
                                          for field, (low, high) in bounds.items()})
            for at, (name, count) in enumerate(zip(records["name"][starts], counts, strict=True))}
