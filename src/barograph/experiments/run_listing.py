"""Pages of the runs that a search finds, in its order, with their exact number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, select

from barograph.experiments.catalog import Catalog
from barograph.experiments.run_columns import COLOR, RunColumn, color_in, recorded_columns_in, usual_columns
from barograph.experiments.schema import FINDINGS, ITEMS, NAMES, TAGS
from barograph.experiments.search.hints import hints
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.search.syntax import And, Search
from barograph.experiments.table import ComponentTable
from barograph.experiments.tabulating import component_table
from barograph.experiments.writing import storable
from barograph.model.finding import SEVERITY_ORDER, FindingState, Severity
from barograph.model.items import ItemKind
from barograph.queries.titles import rule_in_words


@dataclass(frozen=True, slots=True)
class ListedFinding:
    """A finding of a run in a list.

    Attributes:
        rule, severity: As in the run.
        words: What the rule reports.
        is_open: Whether it still holds.
    """

    rule: str
    words: str
    severity: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in a list.

    Attributes:
        uid: ID.
        place: URL of its directory.
        name: Name.
        color: Color that a user chose, such as "#0f655d"; "": none.
        starred: Whether a user starred it.
        values: Value of each column of the list, in order; None if it has none.
        findings: Open ones first, then worst first.
    """

    uid: str
    place: str
    name: str
    color: str
    starred: bool
    values: tuple[Any, ...]
    findings: tuple[ListedFinding, ...]


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of the runs that a search finds.

    Attributes:
        count: Number of runs that the search finds.
        columns: Names of the columns.
        runs: The runs of this page.
        hints: Why nothing was found, a sentence each.
    """

    count: int
    columns: tuple[str, ...]
    runs: tuple[ListedRun, ...]
    hints: tuple[str, ...] = ()


def search_with(question: str, *, filters: Sequence[str] = (), order: str = "") -> Search:
    """Return a search that also meets other conditions.

    Args:
        question: The search.
        filters: Conditions that runs must meet, too.
        order: "FIELD asc" or "FIELD desc", in place of the order of the search; "": the order of the search.

    Raises:
        SearchError: A part is invalid.

    Example:
        >>> search_with("state = 'failed'", filters=["params.lr < 1"], order="created asc").orders[0].descending
        False
    """
    # Searched values are converted as the tables convert them.
    search, *others = (search_from_text(storable(text)) for text in (question, *filters))
    conditions = [found.condition for found in (search, *others) if found.condition is not None]
    condition = And(tuple(conditions)) if len(conditions) > 1 else conditions[0] if conditions else None
    orders = search_from_text(storable(f"order by {order}")).orders if order else search.orders
    return replace(search, condition=condition, orders=orders)


def found_runs(catalog: Catalog, connection: Connection, search: Search) -> list[int]:
    """Return the row numbers of the runs that a search finds, in its order.

    Raises:
        SearchError: A field does not exist, or is compared with a value of another type.
    """
    return catalog.ids_of(search, connection, kinds=(ItemKind.RUN,))


def run_page(
    connection: Connection, ids: Sequence[int], *, columns: Sequence[str] | None, offset: int, limit: int,
    search: Search | None = None,
) -> RunPage:
    """Return one page of a list of runs.

    Args:
        connection: Connection to the catalog.
        ids: Row numbers of all runs of the list, in order.
        columns: Names of columns, as in `RunColumn`; None: the usual ones.
        offset, limit: First run of the page, and the number of runs.
        search: The search that found the runs, for hints if there are none.
    """
    names = tuple(usual_columns(recorded_columns_in(connection, ids), runs=len(ids)) if columns is None else columns)
    mine = ids[offset:offset + limit]
    table = component_table(connection, mine)
    values = {name: _column(table, name) for name in {*names, "uid", "place", "name", "starred", COLOR}}
    findings = _findings(connection, mine)
    rows = tuple(
        ListedRun(values["uid"][row], values["place"][row], values["name"][row], color_in(values[COLOR][row]),
                  bool(values["starred"][row]), tuple(values[name][row] for name in names),
                  findings.get(number, ()))
        for row, number in enumerate(mine))
    wrong = hints(connection, search) if search is not None and not ids else []
    return RunPage(len(ids), names, rows, tuple(wrong))


def differing_columns(columns: Sequence[RunColumn], chosen: Sequence[str]) -> list[str]:
    """Return the chosen columns in which the runs differ; those of no run are left out, too."""
    known = {column.name: column for column in columns}
    return [name for name in chosen if name in known and known[name].differs]


def colors_at(connection: Connection, places: Sequence[str]) -> dict[str, str]:
    """Return the colors that users chose for the runs at these URLs, by URL."""
    statement = select(ITEMS.c.place, TAGS.c.text).join(TAGS, TAGS.c.item_id == ITEMS.c.id).join(
        NAMES, NAMES.c.id == TAGS.c.name_id)
    rows = connection.execute(statement.where(
        NAMES.c.text == COLOR.removeprefix("tags."), ITEMS.c.place.in_(places), ITEMS.c.deleted_unix.is_(None)))
    return {place: tag for place, tag in rows if color_in(tag)}


def _column(table: ComponentTable, name: str) -> Sequence[Any]:
    try:
        return table.columns[name]
    except KeyError:
        return [None] * len(table)


def _findings(connection: Connection, ids: Sequence[int]) -> Mapping[int, tuple[ListedFinding, ...]]:
    columns = FINDINGS.c
    rows = connection.execute(select(columns.item_id, columns.rule, columns.severity, columns.state).where(
        columns.item_id.in_(ids)).order_by(columns.step))
    found: dict[int, list[ListedFinding]] = {}
    for item, rule, severity, state in rows:
        found.setdefault(item, []).append(ListedFinding(
            rule, rule_in_words(rule), severity, state == FindingState.OPEN))
    return {item: tuple(sorted(of, key=lambda one: (not one.is_open, severity_rank(one.severity))))
            for item, of in found.items()}


def severity_rank(severity: str) -> int:
    """Return the position of a severity, worst first."""
    return SEVERITY_ORDER.index(Severity(severity)) if severity in list(Severity) else len(SEVERITY_ORDER)
