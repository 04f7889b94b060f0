"""What `barograph show --around` prints: a step among its neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

from barograph.cli.inspect.findings import print_findings
from barograph.cli.opening import and_others, run_at, tell_damage
from barograph.cli.printing import Cell, Column, Printer
from barograph.model.finding import Finding
from barograph.model.key import Kind
from barograph.queries.recall import recalled
from barograph.rules.columns import learning_rate, stated_loss
from barograph.runs.reading.around import Change, Surroundings, around, findings_near, gradient_norm, update_ratio
from barograph.runs.reading.one_worker import OneWorker
from barograph.runs.reading.reader import Run
from barograph.runs.reading.view import StepView
from barograph.watch.figures import count, figure, local_time
from barograph.watch.wording import shown

_MOST_CHANGES = 10
_SMALL = 0.1
"""Decades; a change below a quarter more or less is nothing."""

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
        UnknownStep: The step lies before all that were recorded, or after.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run, printer = run_at(place), Printer()
    run = OneWorker(run.store, worker) if worker is not None else run
    found = around(run, step)
    group = found.views[0].group
    near = findings_near([item for item in recalled(run.store).summary.findings if item.worker == group], found.views)
    # Of several processes that trained by themselves it is the first that recorded the step.
    shown = worker if worker is not None or group == "r" else group
    others = and_others(run, shown)
    if as_json:
        printer.json({**_to_json(run, found, near), "worker": shown, "figures": others})
    else:
        _print(printer, place, run, found, near, others)
    tell_damage(run, place)


def _print(
    printer: Printer, place: str, run: Run, found: Surroundings, near: Sequence[Finding], others: str
) -> None:
    here = next(view for view in found.views if view.step.number == found.step)
    printer.line(Text.assemble((f"step {found.step}", "bold"), f" of {shown(run.manifest.name or place)}, "
                               f"{local_time(here.step.time_unix)}"))
    if found.asked != found.step:
        printer.line(f"Step {found.asked} was not recorded. This is the nearest recorded step.")
    printer.heading("Steps around it", others)
    printer.table(_STEPS, [_step_row(view, found.step, near) for view in found.views])
    _print_changes(printer, found)
    printer.heading("Findings near", "" if near else "none")
    print_findings(printer, near)


def _print_changes(printer: Printer, found: Surroundings) -> None:
    title = "Largest changes"
    if found.nearest_with_tensors:
        steps = " and ".join(str(step) for step in found.nearest_with_tensors)
        printer.heading(title, f"step {found.step} has no tensors; the nearest with tensors: {steps}")
        return
    if not found.changes:
        printer.heading(title, "no tensors in this step, or none before it")
        return
    changed = [change for change in found.changes if change.size > _SMALL or change.nonfinite]
    compared = max(change.compared for change in found.changes)
    printer.heading(title, f"norm, compared with the median of the last {count(compared, 'recorded step')}")
    if changed:
        printer.table(_CHANGES, [_change_row(change) for change in changed[:_MOST_CHANGES]])
    rest = len(found.changes) - len(changed)
    if len(changed) > _MOST_CHANGES:
        more = len(changed) - _MOST_CHANGES
        printer.line(f"and {more} more that changed by more than 25% (all: --json)", indent=2)
    elif rest:
        others = "the other " if changed else "all "
        printer.line(f"{others}{count(rest, 'tensor')} changed by less than 25%", indent=2)


def _step_row(view: StepView, step: int, near: Sequence[Finding]) -> list[Cell]:
    here = view.step.number == step
    loss, ratio, rate = stated_loss(view), update_ratio(view), learning_rate(view)
    cells = [
        ">" if here else "", f"{view.step.number}", view.step.mode.value, view.step.optimizer,
        figure(loss[1] if loss else None), figure(gradient_norm(view)), figure(ratio), figure(rate),
        ", ".join(_events(view, near)),
    ]
    if view.step.skipped:
        cells[-1] = ", ".join(filter(None, ["skipped by the gradient scaler", cells[-1]]))
    return [Text(cell, "bold" if here else "") for cell in cells]


def _events(view: StepView, near: Sequence[Finding]) -> list[str]:
    """Return what findings did in that step."""
    events = []
    for finding in near:
        if (finding.mode, finding.optimizer) != (view.step.mode, view.step.optimizer):
            continue
        for verb, when in (("began", finding.since_step), ("gone", finding.closed_step)):
            if when == view.step.number:
                events.append(f"{finding.code} {verb}")
    return events


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


def _to_json(run: Run, found: Surroundings, near: Sequence[Finding]) -> dict[str, object]:
    return {
        "url": run.url, "asked": found.asked, "step": found.step, "nearest_with_tensors": found.nearest_with_tensors,
        "steps": [
            {
                "step": view.step.number, "mode": view.step.mode, "optimizer": view.step.optimizer,
                "time_unix": view.step.time_unix, "skipped": view.step.skipped,
                "losses": {key.path: value for key, value in view.scalars(Kind.LOSS).items()},
                "logged": {key.path: value for key, value in view.scalars(Kind.SCALAR).items()},
                "gradient_norm": gradient_norm(view), "update_ratio": update_ratio(view),
                "learning_rate": learning_rate(view),
            }
            for view in found.views
        ],
        "changes": [
            {
                "key": str(change.key), "class": change.layer, "norm": change.norm, "usual": change.usual,
                "compared_steps": change.compared, "factor": change.factor, "nonfinite": change.nonfinite,
                "nonfinite_before": change.nonfinite_before,
            }
            for change in found.changes
        ],
        "findings": [item.to_json() for item in near], "damage": run.damage,
    }
