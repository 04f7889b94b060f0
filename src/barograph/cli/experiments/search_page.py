"""Output of `barograph search`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from barograph.cli.experiments.catalog_options import open_catalog
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import state_text
from barograph.experiments.finding import found_by
from barograph.experiments.table import ComponentTable, column_name
from barograph.model.one_line import shown_lines
from barograph.watch.figures import count, duration, figure, local_time

_SHOWN = 100
_STATISTIC = "last"
_MOST_NAME, _MOST_TEXT = 32, 20
"""Maximum characters of a cell on a terminal."""
_FIRST_METRICS = 4
_MORE = "--columns NAME,… or --json"


def print_search(question: str, root: str | None, *, columns: str | None, output: str | None, as_json: bool) -> None:
    """Find components and print a table; raises SearchError, UnknownName and the errors of `open_catalog`."""
    catalog = open_catalog(root)
    wanted = [name.strip() for name in columns.split(",") if name.strip()] if columns is not None else None
    found = found_by(catalog, question, wanted)
    table = found.table
    for sentence in found.hints:
        print(f"barograph: {shown_lines(sentence)}", file=sys.stderr)
    if output is not None:
        table.write(output)
        print(f"barograph: wrote {count(len(table), 'row')} to {output}", file=sys.stderr)
    elif as_json:
        Printer().json(found.to_json())
    elif not len(table):
        Printer().line(f"Nothing in {catalog.store.url} matches this search." if question else
                       f"No runs or components in {catalog.store.url} yet.")
    elif wanted is not None:
        print_table(Printer(), table, hidden="" if "uid" in map(column_name, wanted) else "uid", whole=True)
    else:
        print_table(Printer(), found.usual.table, left_out=found.usual.left_out)


def print_table(
    printer: Printer, table: ComponentTable, *, hidden: str = "uid", left_out: int = 0, whole: bool = False
) -> None:
    """Print a table of components, shortened on a terminal.

    Args:
        printer: Prints.
        table: The table.
        hidden: Column to omit.
        left_out: Number of metrics that are not in the table.
        whole: Print empty columns, too, because the user named them.
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
    """Return the rank at which a narrow terminal omits each column; 0: never.

    The first column, which determines the order, and the name are never omitted. Some metrics and numeric parameters
    come next, because they are narrow and of general interest.
    """
    first, rest = columns[:1], columns[1:]
    metrics = [name for name, _ in rest if name.startswith("metrics.")]
    numbers = [name for name, values in rest if name.startswith("params.") and _is_number(values)]
    texts = [name for name, _ in rest if name.startswith("params.")]
    order = dict.fromkeys([*metrics[:_FIRST_METRICS], *numbers, *texts, *metrics, *(name for name, _ in rest)])
    order.pop("name", None)
    return {**{name: 0 for name, _ in first}, "name": 0, **{name: rank + 1 for rank, name in enumerate(order)}}


def _field(name: str) -> str:
    """Return the name of a column in searches and `--columns`."""
    return name.removesuffix("_unix")


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
