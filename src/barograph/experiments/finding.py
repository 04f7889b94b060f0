"""A search of a catalog: the matching components, hints if there are none, and the columns to show first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.experiments.catalog import Catalog
from barograph.experiments.columns import Columns
from barograph.experiments.echoes import echoed, same
from barograph.experiments.search.hints import hints, missing_name
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.search.syntax import Field, Search
from barograph.experiments.table import ComponentTable, column_name
from barograph.experiments.tabulating import component_table
from barograph.model.items import STATISTICS
from barograph.model.plain import plain

_LAST = ("created_unix", "trials", "findings")
_STATISTIC = "last"
_MOST_METRICS = 30


@dataclass(frozen=True, slots=True)
class UsualColumns:
    """The columns of a table that people want first.

    Attributes:
        table: The table with these columns.
        left_out: Number of metrics that it leaves out.
    """

    table: ComponentTable
    left_out: int


@dataclass(frozen=True, slots=True)
class Found:
    """Components that a search found.

    Attributes:
        search: The search.
        table: The components, with the requested columns, or all.
        hints: Why nothing was found, or what a column may refer to, one sentence each.
    """

    search: Search
    table: ComponentTable
    hints: tuple[str, ...]

    @property
    def usual(self) -> UsualColumns:
        """The columns that people want first."""
        return usual(self.table, self.search)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the components as strict JSON data."""
        return [plain(row) for row in self.table.rows()]


def found_by(catalog: Catalog, question: str, columns: Sequence[str] | None = None) -> Found:
    """Return the components that match a search.

    Args:
        catalog: The catalog.
        question: The search; "": all components.
        columns: Names of columns; None: all.

    Raises:
        SearchError: It is not a search.
        UnknownName: No component has one of the columns.
    """
    search = search_from_text(question)
    with catalog.reading() as connection:
        table = component_table(connection, catalog.ids(question, connection))
        wrong = hints(connection, search) if not len(table) else []
        wrong += [missing_name(connection, *split) for name in columns or () if (split := _named(name)) is not None]
    said = tuple(filter(None, dict.fromkeys(wrong)))
    return Found(search, table if columns is None else table.only(columns), said)


def usual(table: ComponentTable, search: Search | None = None) -> UsualColumns:
    """Return the columns to show first: those that rows are sorted by, that identify rows, and that differ between
    them.

    Args:
        table: Components found.
        search: The search that found them; None: all components of an experiment.
    """
    ordered = [name for order in (search.orders if search is not None else ())
               if (name := _column_of(order.field)) in table.columns]
    names = table.columns.metrics.commonest(_MOST_METRICS)
    whole = echoed(names)
    metrics = [column for name in names if not _repeats(table, name, whole)
               if (column := f"metrics.{name}.{_STATISTIC}") and _differs(table, column)]
    given = [name for name in table.columns.before
             if name.partition(".")[0] in ("params", "tags") and _differs(table, name)]
    parameters = [name for name in given if name.startswith("params.")]
    last = [name for name in _LAST if name == "created_unix" or _differs(table, name)]
    state = ["state"] if _differs(table, "state") else []
    chosen = dict.fromkeys([*ordered, "name", *state, *parameters, *metrics, *last, *given, "uid"])
    return UsualColumns(ComponentTable(Columns({name: table.columns[name] for name in chosen})),
                        table.columns.metrics.count - len(names))


def _column_of(field: Field) -> str:
    name = column_name(".".join(field.path))
    statistic = field.path[-1] in STATISTICS and len(field.path) > 2
    return f"{name}.{_STATISTIC}" if name.startswith("metrics.") and not statistic else name


def _named(name: str) -> tuple[str, str] | None:
    """Return the group and the name of a parameter, a metric or a tag that a column is of."""
    group, dot, rest = column_name(name).partition(".")
    if not dot or group not in ("params", "metrics", "tags"):
        return None
    before, _, statistic = rest.rpartition(".")
    return group, before if group == "metrics" and statistic in STATISTICS and before else rest


def _repeats(table: ComponentTable, name: str, whole: Mapping[str, str]) -> bool:
    return name in whole and same(table.columns[f"metrics.{name}.{_STATISTIC}"],
                                  table.columns[f"metrics.{whole[name]}.{_STATISTIC}"])


def _differs(table: ComponentTable, name: str) -> bool:
    """Return whether rows differ in a column; of one row alone all is shown."""
    values = table.columns[name]
    return len(table) == 1 or len({repr(value) for value in values}) > 1
