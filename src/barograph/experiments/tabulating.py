"""Builds a table of components in a constant number of queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, func, select

from barograph.errors import UnknownName, nearest
from barograph.experiments.columns import Columns, MetricColumns
from barograph.experiments.packing import metrics_in, numbers_in, texts_in
from barograph.experiments.schema import FINDINGS, ITEMS, LINKS, MEMBERS, METRIC_SHEETS, SHEETS
from barograph.experiments.sheets import names_of
from barograph.experiments.table import FACTS, ComponentTable
from barograph.experiments.writing import BOOLEAN, NUMBER, WHOLE, in_parts
from barograph.model.items import STATISTICS

_MOST_IN_ONE = 5000
_PYTHON = {NUMBER: np.float64, WHOLE: np.int64, BOOLEAN: np.bool_}


def component_table(
    connection: Connection, ids: Sequence[int], *, statistics: Sequence[str] = STATISTICS
) -> ComponentTable:
    """Return a table of components.

    Args:
        connection: Connection to the catalog.
        ids: Row numbers of the components, in the order of the table.
        statistics: Statistics of each metric to include.

    Raises:
        UnknownName: A statistic is unknown.
    """
    for name in statistics:
        if name not in STATISTICS:
            raise UnknownName(f'"{name}" is not a metric statistic. {nearest(name, STATISTICS)}')
    return _Maker(connection, ids).table(statistics)


class _Maker:
    def __init__(self, connection: Connection, ids: Sequence[int]) -> None:
        self._connection = connection
        self._ids = ids
        self._row_of = {number: row for row, number in enumerate(ids)}
        total = connection.execute(select(func.count()).select_from(ITEMS)).scalar_one()
        # If most are requested, reading all is faster than listing them.
        self._all = 2 * len(ids) >= total
        self._names: dict[int, str] = {}

    def table(self, statistics: Sequence[str]) -> ComponentTable:
        columns: dict[str, Sequence[Any]] = self._facts()
        columns["duration"] = [None if None in (began, ended) else ended - began for began, ended in
                               zip(columns["started_unix"], columns["ended_unix"], strict=True)]
        of_trial = select(ITEMS.c.id, _TRIAL.c.name).join_from(
            MEMBERS, ITEMS, ITEMS.c.uid == MEMBERS.c.component).join(_TRIAL, _TRIAL.c.uid == MEMBERS.c.trial)
        of_experiment = of_trial.with_only_columns(ITEMS.c.id, _EXPERIMENT.c.name).join(
            _EXPERIMENT, _EXPERIMENT.c.uid == _TRIAL.c.parent)
        oldest = _TRIAL.c.created_unix, _TRIAL.c.id
        columns |= self._joined("trials", of_trial.order_by(*oldest), ITEMS.c.id)
        columns |= self._joined("experiments", of_experiment.order_by(*oldest), ITEMS.c.id)
        columns |= self._joined("findings", select(FINDINGS.c.item_id, FINDINGS.c.rule), FINDINGS.c.item_id)
        columns |= self._parameters_and_tags()
        return ComponentTable(Columns(columns, self._metrics(statistics), self._links("input") | self._links("output")))

    def _rows(self, statement: Select[Any], number: Any) -> Iterator[Sequence[Any]]:
        if self._all:
            yield from self._connection.execute(statement).all()
            return
        for some in in_parts(self._ids, _MOST_IN_ONE):
            yield from self._connection.execute(statement.where(number.in_(some))).all()

    def _facts(self) -> dict[str, Sequence[Any]]:
        rows = {row[0]: row for row in self._rows(select(ITEMS.c.id, *(ITEMS.c[name] for name in FACTS)), ITEMS.c.id)}
        if not self._ids:
            return {name: [] for name in FACTS}
        _, *columns = zip(*(rows[number] for number in self._ids), strict=True)
        return dict(zip(FACTS, columns, strict=True))

    def _joined(self, name: str, statement: Select[Any], number: Any) -> dict[str, Sequence[Any]]:
        found: dict[int, dict[str, None]] = {}
        for item, text in self._rows(statement, number):
            found.setdefault(item, {})[text] = None
        return {name: [", ".join(found[item]) if item in found else None for item in self._ids]}

    def _parameters_and_tags(self) -> dict[str, Sequence[Any]]:
        sheets = list(self._rows(select(SHEETS), SHEETS.c.item_id))
        parameters: dict[int, NDArray[np.object_]] = {}
        tags: dict[int, NDArray[np.object_]] = {}
        for name, mine, rows in self._by_name(numbers_in(sheet[1] for sheet in sheets)):
            for type_ in np.unique(mine["type"]).tolist():
                alike = mine["type"] == type_
                self._fill(parameters, name, rows[alike], mine["number"][alike].astype(_PYTHON[type_]))
        # Strings repeat across items: the name of an optimizer, a team.
        alike_texts: dict[str, list[int]] = {}
        for number, _, texts in sheets:
            if number in self._row_of:
                alike_texts.setdefault(texts, []).append(self._row_of[number])
        for rows_of_text, (others, tagged) in zip(alike_texts.values(), texts_in(list(alike_texts)), strict=True):
            for columns, found in ((parameters, others), (tags, tagged)):
                for name_text, value in found.items():
                    self._fill(columns, int(name_text), np.array(rows_of_text), _repeated(value, len(rows_of_text)))
        return {**self._called("params", parameters), **self._called("tags", tags)}

    def _fill(
        self, columns: dict[int, NDArray[np.object_]], name: int, rows: NDArray[np.intp], values: NDArray[Any]
    ) -> None:
        if name not in columns:
            columns[name] = np.full(len(self._ids), None, object)
        columns[name][rows] = values

    def _metrics(self, statistics: Sequence[str]) -> MetricColumns:
        found, rows = self._in_rows(
            metrics_in(data for _, data in self._rows(select(METRIC_SHEETS), METRIC_SHEETS.c.item_id)))
        numbers, codes = np.unique(found["name"], return_inverse=True)
        self._learn(numbers.tolist())
        names = [self._names[number] for number in numbers.tolist()]
        places = sorted(range(len(names)), key=names.__getitem__)
        rank = np.empty(len(names), np.int64)
        rank[places] = np.arange(len(names))
        codes = rank[codes]
        order = np.argsort(codes, kind="stable")
        return MetricColumns([names[place] for place in places], codes[order], rows[order], found[order], statistics,
                             len(self._ids))

    def _learn(self, numbers: Sequence[int]) -> None:
        """Load these names; the table may have many more that no row uses."""
        self._names.update(names_of(self._connection, [number for number in numbers if number not in self._names]))

    def _by_name(self, found: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any], NDArray[np.intp]]]:
        """Yield for each name its number, its records, and their rows."""
        found, rows = self._in_rows(found)
        order = np.argsort(found["name"], kind="stable")
        found, rows = found[order], rows[order]
        changes = np.flatnonzero(np.diff(found["name"])) + 1
        for mine, its_rows in zip(np.split(found, changes), np.split(rows, changes), strict=True):
            if len(mine):
                yield int(mine["name"][0]), mine, its_rows

    def _in_rows(self, found: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the records of rows, with the row of each."""
        rows = self._rows_of(found["item"])
        return found[rows >= 0], rows[rows >= 0]

    def _rows_of(self, items: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the rows of items; -1 if an item has none."""
        if not len(self._ids):
            return np.full(len(items), -1)
        known = np.asarray(self._ids)
        order = np.argsort(known)
        places = np.minimum(np.searchsorted(known[order], items), len(known) - 1)
        return np.where(known[order][places] == items, order[places], -1)

    def _links(self, role: str) -> dict[str, Sequence[Any]]:
        columns: dict[str, list[Any]] = {}
        links = select(LINKS.c.item_id, LINKS.c.name, LINKS.c.uri).where(LINKS.c.role == role)
        for item, name, uri in self._rows(links, LINKS.c.item_id):
            if item in self._row_of:
                columns.setdefault(name, [None] * len(self._ids))[self._row_of[item]] = uri
        return {f"{role}s.{name}": columns[name] for name in sorted(columns)}

    def _called(self, group: str, columns: Mapping[int, NDArray[np.object_]]) -> dict[str, Sequence[Any]]:
        self._learn(list(columns))
        return {f"{group}.{self._names[name]}": list(columns[name].tolist())
                for name in sorted(columns, key=self._names.__getitem__)}


def _repeated(value: Any, count: int) -> NDArray[np.object_]:
    """Return an array that repeats a value; a list is one value, too."""
    values = np.empty(count, object)
    values.fill(value)
    return values


_TRIAL = ITEMS.alias("trial")
_EXPERIMENT = ITEMS.alias("experiment")
