"""Losses, learning rates and logged numbers of a run, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from barograph.cli.figures import curve
from barograph.cli.printing import Cell, Column, Printer
from barograph.queries.numbers import Number
from barograph.watch.figures import figure

_MOST = 24

_COLUMNS = (
    Column("number"), Column("mode"), Column("optimizer"), Column("steps", right=True), Column("first", right=True),
    Column("last", right=True), Column("min", right=True, spare=1), Column("at step", right=True, spare=2),
    Column("over time", pipe=False, spare=3),
)


def print_numbers(printer: Printer, numbers: Sequence[Number], *, more: str) -> None:
    """Print numbers as a table.

    Args:
        printer: Prints.
        numbers: Which; on a terminal only so many are shown.
        more: What to call to see the rest.
    """
    shown = numbers[:_MOST] if printer.on_terminal else numbers
    printer.table(_COLUMNS, [_row(number) for number in shown])
    if len(shown) < len(numbers):
        printer.line(f"and {len(numbers) - len(shown)} more:  {more}", indent=2)


def _row(number: Number) -> list[Cell]:
    least, least_step = number.least()
    return [
        str(number.series.key), number.mode.value, number.optimizer, f"{len(number.series)}", figure(number.first),
        figure(number.last), figure(least), f"{least_step}" if least_step >= 0 else "",
        curve(number.series.values.tolist()),
    ]
