"""Locates where in a step NaN and infinite values arose, from counts per tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barograph.model.finding import Evidence
from barograph.model.key import Kind
from barograph.rules.columns import GRADIENTS, Table, table_of
from barograph.rules.words import joined
from barograph.runs.reading.view import StepView

Flags = NDArray[np.bool_]
"""One boolean per row of a `Table`."""

ORDER = (
    Kind.INPUT, Kind.OUTPUT, Kind.LOSS, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.OPTIMIZER_STATE, Kind.UPDATE,
    Kind.WEIGHT,
)
"""Kinds in the order in which a step computes them."""

MODULES = ("output", "between")
"""Places that identify a module among others."""

_ACTIVATIONS = (Kind.INPUT, Kind.OUTPUT)


@dataclass(frozen=True, slots=True)
class Origin:
    """The place where non-finite values arose.

    Attributes:
        table, row: The tensor that shows it.
        place: "batch", "between" (two modules, or the batch and the first), "first output", "output", "loss",
            "gradient" or "weight".
        text: One sentence without its full stop.
    """

    table: Table
    row: int
    place: str
    text: str

    @property
    def share(self) -> float:
        """Share of non-finite elements."""
        return float((self.table.column("nan") + self.table.infinite)[self.row] / self.table.column("count")[self.row])

    def evidence(self, step: int) -> Evidence:
        """Return the non-finite count at the origin as evidence."""
        return evidence_of(self.table, self.row, step)


def any_bad(view: StepView, tables: Mapping[Kind, Table], *, only_nan: bool) -> bool:
    """Return whether `bad_rows` would find any, without checking the rows."""
    for kind, table in tables.items():
        if kind in _ACTIVATIONS or (view.step.skipped and kind in GRADIENTS):
            continue
        if table.has_nan or not (only_nan or table.is_whole):
            return True
    return any(kind in tables and tables[kind].has_nan for kind in _ACTIVATIONS)


def bad_rows(view: StepView, tables: Mapping[Kind, Table], *, only_nan: bool) -> dict[Kind, Flags]:
    """Return which rows of each table are unexpectedly non-finite.

    Excludes gradients of a step that a gradient scaler skipped: it made no update and tries a smaller scale.
    Infinities in activations count only if other kinds are affected: attention masks are infinite on purpose.
    """
    bad = {kind: _nonfinite(table, only_nan) for kind, table in tables.items()
           if not (view.step.skipped and kind in GRADIENTS)}
    spoilt = any(rows.any() for kind, rows in bad.items() if kind not in _ACTIVATIONS)
    for kind in _ACTIVATIONS:
        if kind in bad and not spoilt:
            bad[kind] = tables[kind].column("nan") > 0
    return bad


def was_fed_well(view: StepView) -> bool:
    """Return whether the batch of this step was recorded, and it and its recorded targets are finite."""
    batch, target = table_of(view, Kind.BATCH), table_of(view, Kind.TARGET)
    return len(batch) > 0 and batch.is_whole and target.is_whole


def origin_of(tables: Mapping[Kind, Table], bad: Mapping[Kind, Flags], *, fed_well: bool = False) -> Origin:
    """Return the origin of the bad rows.

    Args:
        tables: Rows in the order of computation.
        bad: Which rows are not finite; at least one.
        fed_well: Result of `was_fed_well`.
    """
    if bad.get(Kind.OUTPUT, np.zeros(0, bool)).any():
        return _origin_in_outputs(tables, bad, fed_well=fed_well)
    first = next(kind for kind in ORDER if kind in bad and bad[kind].any())
    table, rows = tables[first], np.flatnonzero(bad[first])
    fine = [plural(kind) for kind in (Kind.OUTPUT, Kind.LOSS, Kind.GRADIENT)
            if ORDER.index(kind) < ORDER.index(first) and len(tables.get(kind, ()))]
    while_fine = f", while {joined(fine)} were finite" if fine else ""
    if first is Kind.LOSS:
        row = int(rows[0])
        return Origin(table, row, "loss", f"The loss {_named(table, row)} is not finite{while_fine}")
    if first is Kind.INPUT:
        row = int(rows[0])
        return Origin(table, row, "batch", f"The input of {_named(table, row)} {_counts(table, row)}")
    if first in GRADIENTS:
        # Gradients flow backward from the loss, so the last affected layer was the first.
        row = int(rows[-1])
        return Origin(table, row, "gradient", f"Gradients failed first: that of {_named(table, row)} "
                      f"{_counts(table, row)}, the last of {len(rows)} affected (of {len(table)}){while_fine}")
    row = int(rows[0])
    what = {Kind.WEIGHT: "Weights", Kind.UPDATE: "Updates", Kind.OPTIMIZER_STATE: "Optimizer states"}[first]
    return Origin(table, row, "weight", f"{what} failed first: {_named(table, row)} {_counts(table, row)}, "
                  f"the first of {len(rows)} affected (of {len(table)}){while_fine}")


def _origin_in_outputs(tables: Mapping[Kind, Table], bad: Mapping[Kind, Flags], *, fed_well: bool) -> Origin:
    outputs, inputs = tables[Kind.OUTPUT], tables[Kind.INPUT]
    row = _first_output(outputs, bad[Kind.OUTPUT])
    module = _module(outputs.paths[row])
    fed = [index for index, path in enumerate(inputs.paths) if _module(path) == module]
    fed_badly = [index for index in fed if bad[Kind.INPUT][index]]
    if fed_badly and row == 0 and fed_well:
        return Origin(inputs, fed_badly[0], "between", f"NaN or infinite values arose between "
                      f"the batch and {_named(inputs, fed_badly[0])}, the first module that ran: the batch is finite, "
                      f"the input of that module {_counts(inputs, fed_badly[0])}")
    if fed_badly and row == 0:
        return Origin(inputs, fed_badly[0], "batch", f"The model's input is not finite: the input of "
                      f"{_named(inputs, fed_badly[0])}, the first module that ran, {_counts(inputs, fed_badly[0])}")
    if fed_badly:
        return Origin(inputs, fed_badly[0], "between", f"NaN or infinite values arose between "
                      f"{_named(outputs, row - 1)} and {_named(outputs, row)}: the output of the first is finite, "
                      f"the input of the second {_counts(inputs, fed_badly[0])}")
    before = ("while its inputs were finite" if fed else
              "while all earlier outputs were finite" if row else "and it ran first")
    # Without recorded inputs, the code before this module may be at fault.
    where = _named(outputs, row) + (" or just before it" if row and not fed else "")
    return Origin(outputs, row, "output" if fed or row else "first output", f"NaN or infinite values arose in "
                  f"{where}: its output {_counts(outputs, row)}, {before}")


def _first_output(outputs: Table, bad: Flags) -> int:
    # From the first NaN back over adjacent non-finite outputs: an overflow that became NaN later. An
    # isolated infinity further up is a mask.
    with_nan = np.flatnonzero(outputs.column("nan") > 0)
    row = int(with_nan[0]) if len(with_nan) else int(np.flatnonzero(bad)[-1])
    while row > 0 and bad[row - 1]:
        row -= 1
    return row


def evidence_of(table: Table, row: int, step: int, text: str = "") -> Evidence:
    """Return the count of non-finite values in one tensor as evidence."""
    count = float(table.column("nan")[row] + table.infinite[row])
    return Evidence(table.subjects[row].key, step, "nonfinite", count, 0.0, text or _counts(table, row))


def plural(kind: Kind) -> str:
    """Return the plural name of a kind."""
    return "losses" if kind is Kind.LOSS else f"{kind.value.replace('_', ' ')}s"


def _nonfinite(table: Table, only_nan: bool) -> Flags:
    return table.column("nan") > 0 if only_nan else ~table.whole


def _counts(table: Table, row: int) -> str:
    nan, infinite = int(table.column("nan")[row]), int(table.infinite[row])
    counts = " and ".join(f"{count} {word}" for count, word in ((nan, "NaN"), (infinite, "infinite")) if count)
    return f"holds {counts} of {int(table.column('count')[row])} values"


def _named(table: Table, row: int) -> str:
    subject = table.subjects[row]
    return f'"{subject.key.path}"' + (f" ({subject.layer})" if subject.layer else "")


def _module(path: str) -> str:
    return path.partition("[")[0]
