"""What `barograph search` prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from barograph.cli.catalog_options import open_catalog
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import state_text
from barograph.experiments.columns import Columns
from barograph.experiments.search.hints import hints
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.table import ComponentTable
from barograph.experiments.tabulating import component_table
from barograph.model.one_line import shown_lines
from barograph.watch.figures import count, figure, local_time

_USUAL = ("name", "state", "created_unix", "trials", "findings")
_SHOWN = 100
_STATISTIC = "last"
_MOST_METRICS = 30


def print_search(question: str, root: str | None, *, columns: str | None, output: str | None, as_json: bool) -> None:
    """Find components and print them as a table; errors as of `open_catalog`, SearchError, UnknownName."""
    catalog = open_catalog(root)
    with catalog.reading() as connection:
        table = component_table(connection, catalog.ids(question, connection))
        wrong = hints(connection, search_from_text(question)) if not len(table) else []
    for sentence in wrong:
        print(f"barograph: {shown_lines(sentence)}", file=sys.stderr)
    if columns is not None:
        table = table.only([name.strip() for name in columns.split(",") if name.strip()])
    if output is not None:
        table.write(output)
        print(f"barograph: {count(len(table), 'row')} written to {output}", file=sys.stderr)
    elif as_json:
        Printer().json(list(table.rows()))
    elif not len(table):
        Printer().line(f"Nothing in {catalog.store.url} answers this." if question else
                       f"There are no runs and no components in {catalog.store.url} yet.")
    else:
        shown, left_out = (table, 0) if columns is not None else usual(table)
        print_table(Printer(), shown, hidden="uid" if columns else "", left_out=left_out)


def usual(table: ComponentTable) -> tuple[ComponentTable, int]:
    """Return what a person wants to see first: what a row is, and in what rows differ.

    Returns:
        The table; and of how many more metrics it says nothing, as only few have them.
    """
    names = table.columns.metrics.commonest(_MOST_METRICS)
    metrics = {f"metrics.{name}.{_STATISTIC}" for name in names}
    kept: dict[str, Sequence[Any]] = {}
    for name in table.columns:
        group, _, _ = name.partition(".")
        if name in _USUAL or name in metrics or group == "tags":
            kept[name] = table.columns[name]
        elif group == "params":
            values = table.columns[name]
            if len(table) == 1 or len({repr(value) for value in values}) > 1:
                kept[name] = values
    return ComponentTable(Columns({**kept, "uid": table.columns["uid"]})), table.columns.metrics.count - len(names)


def print_table(printer: Printer, table: ComponentTable, *, hidden: str = "uid", left_out: int = 0) -> None:
    """Print a table of components; on a terminal no more rows than anybody reads.

    Args:
        printer: Prints.
        table: What.
        hidden: A column that is not printed.
        left_out: Metrics that the table says nothing of.
    """
    columns = [(name, table.columns[name]) for name in table.columns.filled() if name != (hidden or "uid")]
    rows = len(table) if not printer.on_terminal else min(len(table), _SHOWN)
    shown = [Column(_title(name), right=_is_number(values), spare=_spare(name, number))
             for number, (name, values) in enumerate(columns)]
    printer.table(shown, [[_cell(name, values[row]) for name, values in columns] for row in range(rows)])
    if rows < len(table):
        printer.line(f"… and {len(table) - rows} more: --json, or -o table.csv")
    if left_out:
        printer.line(f"… and {count(left_out, 'more metric')}: --columns metrics.NAME, or --json")


def _title(name: str) -> str:
    group, dot, rest = name.partition(".")
    if name.endswith("_unix"):
        return name.removesuffix("_unix")
    return rest.removesuffix(f".{_STATISTIC}") if dot and group in ("params", "metrics", "tags") else name


def _spare(name: str, number: int) -> int:
    return 0 if name == "name" else number + 1


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
    if isinstance(value, float):
        return figure(value)
    return Text(str(value))
