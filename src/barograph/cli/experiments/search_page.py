"""What `barograph search` prints."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from barograph.cli.experiments.catalog_options import open_catalog
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import state_text
from barograph.experiments.columns import Columns
from barograph.experiments.echoes import echoed, same
from barograph.experiments.search.hints import hints, missing_name
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.search.syntax import Field, Search
from barograph.experiments.table import ComponentTable, column_name
from barograph.experiments.tabulating import component_table
from barograph.model.items import STATISTICS
from barograph.model.one_line import shown_lines
from barograph.watch.figures import count, duration, figure, local_time

_LAST = ("created_unix", "trials", "findings")
_SHOWN = 100
_STATISTIC = "last"
_MOST_METRICS = 30
_MOST_NAME, _MOST_TEXT = 32, 20
"""Characters of a cell on a terminal."""
_FIRST_METRICS = 4
_MORE = "--columns NAME,… or --json"


def print_search(question: str, root: str | None, *, columns: str | None, output: str | None, as_json: bool) -> None:
    """Find components and print them as a table; errors as of `open_catalog`, SearchError, UnknownName."""
    catalog = open_catalog(root)
    wanted = [name.strip() for name in columns.split(",") if name.strip()] if columns is not None else None
    search = search_from_text(question)
    with catalog.reading() as connection:
        table = component_table(connection, catalog.ids(question, connection))
        wrong = hints(connection, search) if not len(table) else []
        wrong += [missing_name(connection, *split) for name in wanted or () if (split := _named(name)) is not None]
    for sentence in filter(None, dict.fromkeys(wrong)):
        print(f"barograph: {shown_lines(sentence)}", file=sys.stderr)
    if wanted is not None:
        table = table.only(wanted)
    if output is not None:
        table.write(output)
        print(f"barograph: {count(len(table), 'row')} written to {output}", file=sys.stderr)
    elif as_json:
        Printer().json(list(table.rows()))
    elif not len(table):
        Printer().line(f"Nothing in {catalog.store.url} matches this search." if question else
                       f"There are no runs and no components in {catalog.store.url} yet.")
    elif wanted is not None:
        print_table(Printer(), table, hidden="" if "uid" in map(column_name, wanted) else "uid", whole=True)
    else:
        kept, left_out = usual(table, search)
        print_table(Printer(), kept, left_out=left_out)


def usual(table: ComponentTable, search: Search | None = None) -> tuple[ComponentTable, int]:
    """Return what a person wants to see first: what the rows are sorted by, what a row is, and in what rows differ.

    Returns:
        The table; and how many more metrics there are, which only few rows have.
    """
    ordered = [name for order in (search.orders if search is not None else ())
               if (name := _column_of(order.field)) in table.columns]
    names = table.columns.metrics.commonest(_MOST_METRICS)
    whole = echoed(names)
    metrics = [column for name in names if not _repeats(table, name, whole)
               if (column := f"metrics.{name}.{_STATISTIC}") and _differs(table, column)]
    told = [name for name in table.columns.before
            if name.partition(".")[0] in ("params", "tags") and _differs(table, name)]
    parameters = [name for name in told if name.startswith("params.")]
    last = [name for name in _LAST if name == "created_unix" or _differs(table, name)]
    state = ["state"] if _differs(table, "state") else []
    chosen = dict.fromkeys([*ordered, "name", *state, *parameters, *metrics, *last, *told, "uid"])
    return ComponentTable(Columns({name: table.columns[name] for name in chosen})), (
        table.columns.metrics.count - len(names))


def print_table(
    printer: Printer, table: ComponentTable, *, hidden: str = "uid", left_out: int = 0, whole: bool = False
) -> None:
    """Print a table of components; on a terminal no more rows than anybody reads.

    Args:
        printer: Prints.
        table: What.
        hidden: A column that is not printed.
        left_out: Metrics that the table says nothing of.
        whole: Columns that are empty are shown, too: somebody named them.
    """
    names = list(table.columns) if whole else table.columns.filled()
    columns = [(name, table.columns[name]) for name in names if name != hidden]
    rows = len(table) if not printer.on_terminal else min(len(table), _SHOWN)
    ranks = _ranks(columns)
    heads = [Column(_title(name), right=_is_number(values), spare=ranks[name], called=_field(name),
                    most=0 if _is_number(values) else _MOST_NAME if name == "name" else _MOST_TEXT)
             for name, values in columns]
    printer.table(heads, [[_cell(name, values[row]) for name, values in columns] for row in range(rows)],
                  rest=_MORE, left_out=left_out)
    if rows < len(table):
        printer.line(f"{len(table) - rows:,} more rows: limit N in the search, --json, or -o table.csv")


def _ranks(columns: Sequence[tuple[str, Sequence[Any]]]) -> dict[str, int]:
    """Return how soon each column may be left out on a narrow terminal; 0: never.

    The first column, which the rows are sorted by, and the name stay. Some metrics and the numbers among the parameters
    come next: they are narrow, and what most people look for.
    """
    first, rest = columns[:1], columns[1:]
    metrics = [name for name, _ in rest if name.startswith("metrics.")]
    numbers = [name for name, values in rest if name.startswith("params.") and _is_number(values)]
    texts = [name for name, _ in rest if name.startswith("params.")]
    order = dict.fromkeys([*metrics[:_FIRST_METRICS], *numbers, *texts, *metrics, *(name for name, _ in rest)])
    order.pop("name", None)
    return {**{name: 0 for name, _ in first}, "name": 0, **{name: rank + 1 for rank, name in enumerate(order)}}


def _column_of(field: Field) -> str:
    name = column_name(".".join(field.path))
    statistic = field.path[-1] in STATISTICS and len(field.path) > 2
    return f"{name}.{_STATISTIC}" if name.startswith("metrics.") and not statistic else name


def _field(name: str) -> str:
    """Return the name of a column as a search and `--columns` know it."""
    return name.removesuffix("_unix")


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


def _title(name: str) -> str:
    group, dot, rest = name.partition(".")
    if name.endswith("_unix"):
        return name.removesuffix("_unix")
    return rest.removesuffix(f".{_STATISTIC}") if dot and group in ("params", "metrics", "tags") else name


def _is_number(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def _cell(name: str, value: Any) -> Cell:
    if value is None or value == "":
        return ""
    if name == "state":
        return state_text(value)
    if name.endswith("_unix"):
        return local_time(value)
    if name == "duration":
        return duration(value)
    if isinstance(value, float):
        return figure(value)
    return Text(shown_lines(str(value)))
