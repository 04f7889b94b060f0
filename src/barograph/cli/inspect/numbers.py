"""Prints losses, learning rates and logged numbers of a run as a table."""

from __future__ import annotations

from collections.abc import Sequence

from barograph.cli.figures import curve
from barograph.cli.printing import Cell, Column, Printer
from barograph.model.step import Mode
from barograph.queries.numbers import Number, without_repeats
from barograph.runs.reading.metrics import HYPERPARAMETER
from barograph.watch.figures import figure

_MOST = 24

_COLUMNS = (
    Column("number"), Column("mode"), Column("optimizer"), Column("steps", right=True), Column("first", right=True),
    Column("last", right=True), Column("min", right=True, spare=1), Column("at step", right=True, spare=2),
    Column("over time", pipe=False, spare=3),
)


CONSTANTS_NAMED = 4


def constants_line(numbers: Sequence[Number], *, more: str) -> str:
    """Return constant numbers in one line, hyperparameters last; "" if there are none.

    Args:
        numbers: Constant numbers.
        more: Command that shows all of them.
    """
    listed = sorted(numbers, key=lambda number: number.series.key.path.startswith(HYPERPARAMETER))
    named = [f"{number.series.key.path if number.series.key.path.startswith(HYPERPARAMETER) else number.series.key}"
             f"{mode_in_brackets(number)} {figure(number.first)}" for number in listed[:CONSTANTS_NAMED]]
    rest = f", and {len(listed) - CONSTANTS_NAMED} more ({more})" if len(listed) > CONSTANTS_NAMED else ""
    return f"constant: {', '.join(named)}{rest}" if named else ""


def mode_in_brackets(number: Number) -> str:
    """Return " (eval)" for a number of evaluation; "" for one of training."""
    return "" if number.mode is Mode.TRAIN else f" ({number.mode})"


def print_numbers(printer: Printer, numbers: Sequence[Number], *, more: str) -> None:
    """Print numbers as a table.

    Args:
        printer: Prints.
        numbers: The numbers; a terminal shows only the first ones.
        more: Command that shows the rest.
    """
    if not printer.on_terminal:
        printer.table(_COLUMNS, [_row(number) for number in numbers])
        return
    numbers = without_repeats(numbers)
    varying = [number for number in numbers if not number.constant]
    if varying:
        printer.table(_COLUMNS, [_row(number) for number in varying[:_MOST]])
    if len(varying) > _MOST:
        printer.line(f"and {len(varying) - _MOST} more:  {more}", indent=2)
    if line := constants_line([number for number in numbers if number.constant], more=more):
        printer.line(line, indent=2)


def _row(number: Number) -> list[Cell]:
    least, least_step = number.least()
    return [
        str(number.series.key), number.mode.value, number.optimizer, f"{len(number.series)}", figure(number.first),
        figure(number.last), figure(least), f"{least_step}" if least_step >= 0 else "",
        curve(number.series.values.tolist()),
    ]
