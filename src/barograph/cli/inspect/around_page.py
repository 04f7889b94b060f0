"""Output of `barograph show --around`: a step and its neighbors."""

from __future__ import annotations

import math

from rich.text import Text

from barograph.cli.inspect.findings import print_findings
from barograph.cli.opening import print_damage, run_at
from barograph.cli.printing import Cell, Column, Printer
from barograph.queries.step import StepAround, StepRow, changed, step_around
from barograph.runs.reading.around import Change
from barograph.runs.reading.reader import RunReader
from barograph.watch.figures import count, figure, local_time
from barograph.watch.wording import shown

_MOST_CHANGES = 10
_SMALL = 0.1
"""Decades; smaller changes (about a quarter) are not shown."""

_STEPS = (
    Column("at"), Column("step", right=True), Column("mode"), Column("optimizer"), Column("loss", right=True),
    Column("gradient norm", right=True), Column("update/weight", right=True, spare=1),
    Column("learning rate", right=True, spare=2), Column("findings"),
)
_CHANGES = (
    Column("tensor"), Column("class", spare=1), Column("norm", right=True), Column("before", right=True),
    Column("change", right=True), Column("nan/inf", right=True),
)


def print_around(place: str, step: int, worker: str | None = None, *, as_json: bool) -> None:
    """Print what was recorded around a step of the run at `place`.

    Raises:
        UnknownWorker: There is no such worker.
        UnknownStep: The step is outside the recorded range.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run, printer = run_at(place), Printer()
    found = step_around(run, step, worker)
    if as_json:
        printer.json(found.to_json())
    else:
        _print(printer, place, run, found)
    print_damage(run, place)


def _print(printer: Printer, place: str, run: RunReader, found: StepAround) -> None:
    printer.line(Text.assemble((f"step {found.step}", "bold"), f" of {shown(run.manifest.name or place)}, "
                               f"{local_time(found.here.time_unix)}"))
    if found.asked != found.step:
        printer.line(f"Step {found.asked} was not recorded. This is the nearest recorded step.")
    printer.heading("Steps around it", found.figures)
    printer.table(_STEPS, [_step_row(row, found) for row in found.steps])
    _print_changes(printer, found)
    printer.heading("Findings near", "" if found.findings else "none")
    print_findings(printer, found.findings)


def _print_changes(printer: Printer, found: StepAround) -> None:
    title = "Largest changes"
    if found.nearest_with_tensors:
        steps = " and ".join(str(step) for step in found.nearest_with_tensors)
        printer.heading(title, f"step {found.step} has no tensors; the nearest with tensors: {steps}")
        return
    if not found.changes:
        printer.heading(title, "no tensors in this step, or none before it")
        return
    large = changed(found.changes, decades=_SMALL)
    compared = max(change.compared for change in found.changes)
    printer.heading(title, f"norm, compared with the median of the last {count(compared, 'recorded step')}")
    if large:
        printer.table(_CHANGES, [_change_row(change) for change in large[:_MOST_CHANGES]])
    rest = len(found.changes) - len(large)
    if len(large) > _MOST_CHANGES:
        more = len(large) - _MOST_CHANGES
        printer.line(f"and {more} more that changed by more than 25% (all: --json)", indent=2)
    elif rest:
        others = "the other " if large else "all "
        printer.line(f"{others}{count(rest, 'tensor')} changed by less than 25%", indent=2)


def _step_row(row: StepRow, found: StepAround) -> list[Cell]:
    here = row.step == found.step
    events = [*(["skipped by the gradient scaler"] if row.skipped else []), *found.events(row)]
    cells = [
        ">" if here else "", f"{row.step}", row.mode.value, row.optimizer, figure(row.loss), figure(row.gradient_norm),
        figure(row.update_ratio), figure(row.learning_rate), ", ".join(events),
    ]
    return [Text(cell, "bold" if here else "") for cell in cells]


def _change_row(change: Change) -> list[Cell]:
    bad = f"{change.nonfinite_before} → {change.nonfinite}" if change.nonfinite or change.nonfinite_before else ""
    return [
        str(change.key), Text(change.layer, "dim"), figure(change.norm), figure(change.usual), _factor(change.factor),
        Text(bad, "bold red"),
    ]


def _factor(factor: float) -> Text:
    if factor == 0:
        return Text("to zero", "yellow")
    if math.isinf(factor):
        return Text("from zero", "yellow")
    return Text(f"×{factor:.3g}", "bold yellow" if abs(math.log10(factor)) >= 1 else "")
