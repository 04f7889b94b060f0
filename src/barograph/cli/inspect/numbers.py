"""Losses, learning rates and logged numbers of a run over its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from barograph.cli.figures import curve, thinned
from barograph.cli.printing import Cell, Column, Printer
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.runs.reading.bundle import bundles
from barograph.runs.reading.inventory import natural_order
from barograph.runs.reading.reader import Run
from barograph.runs.reading.series import Series
from barograph.watch.figures import figure

_KINDS = (Kind.LOSS, Kind.SCALAR, Kind.LEARNING_RATE)
_MOST = 24

_COLUMNS = (
    Column("number"), Column("mode"), Column("optimizer"), Column("steps", right=True), Column("first", right=True),
    Column("last", right=True), Column("least", right=True, spare=1), Column("at step", right=True, spare=2),
    Column("over time", pipe=False, spare=3),
)


@dataclass(frozen=True, slots=True)
class Number:
    """One number over the steps.

    Attributes:
        series: Of it.
        mode: In this mode.
        optimizer: In steps of this one; "" where the run has one.
    """

    series: Series
    mode: Mode
    optimizer: str

    def least(self) -> tuple[float, int]:
        """Return the least finite value and its step; NaN and -1 where there is none."""
        values = self.series.values
        finite = np.flatnonzero(np.isfinite(values))
        if not len(finite):
            return math.nan, -1
        row = finite[int(np.argmin(values[finite]))]
        return float(values[row]), int(self.series.steps[row])


def numbers_of(run: Run) -> list[Number]:
    """Return every plain number of the run: losses first, then what the script logged, then learning rates."""
    modes = list(Mode)
    numbers: list[Number] = []
    for kind in _KINDS:
        found = [Number(series, mode, optimizer) for mode, optimizer, (series,) in bundles(run, kind)]
        # Those of one optimizer and mode come together; sorting keeps their order.
        numbers += sorted(found, key=lambda number: (natural_order(number.optimizer), modes.index(number.mode)))
    return numbers


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


def number_to_json(number: Number) -> dict[str, object]:
    """Return a number as JSON data; of a long series two hundred points."""
    series, (least, least_step) = number.series, number.least()
    steps, values = thinned(series.steps.tolist(), series.values.tolist())
    return {
        "key": str(series.key), "mode": number.mode, "optimizer": number.optimizer, "count": len(series),
        "first": float(series.values[0]), "last": float(series.values[-1]), "least": least,
        "least_step": least_step, "steps": steps, "values": values,
    }


def _row(number: Number) -> list[Cell]:
    series, values = number.series, number.series.values.tolist()
    least, least_step = number.least()
    return [
        str(series.key), number.mode.value, number.optimizer, f"{len(series)}", figure(values[0]),
        figure(values[-1]), figure(least), f"{least_step}" if least_step >= 0 else "", curve(values),
    ]
