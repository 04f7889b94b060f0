"""What `barograph show` prints of a run."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict
from enum import StrEnum

from rich.text import Text

from barograph.cli.inspect.exhibits_text import print_exhibits
from barograph.cli.inspect.findings import print_findings
from barograph.cli.inspect.layers_table import layer_to_json, print_layers
from barograph.cli.inspect.numbers import number_to_json, numbers_of, print_numbers
from barograph.cli.inspect.origin_entries import origin_facts, origin_of
from barograph.cli.inspect.show_brief import print_brief
from barograph.cli.inspect.time_line import time_line
from barograph.cli.opening import and_others, run_at, tell_damage
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import state_text
from barograph.experiments.shown import exhibits_of_run
from barograph.model.finding import Finding, FindingState
from barograph.model.manifest import Heartbeat
from barograph.queries.recall import Recall, recalled
from barograph.queries.wording import not_evaluated_line, problem_rest
from barograph.runs.reading.glance import Glance, RunState, glance
from barograph.runs.reading.layers import layers_of
from barograph.runs.reading.one_worker import OneWorker, speaker_of
from barograph.runs.reading.reader import Run
from barograph.runs.reading.roster import WorkerState
from barograph.runs.reading.time_of_steps import time_of_steps
from barograph.runs.reading.view import group_of
from barograph.runs.state.checkpoints import steps_of_checkpoints
from barograph.watch.closing import RECORD_STEPS, recorded_line
from barograph.watch.figures import count, duration, figure, local_time, share
from barograph.watch.wording import problem_head, shown

_BELOW = 12
"""Columns that what belongs to a problem is moved below its title."""

_WORKERS = (
    Column("worker"), Column("attempt", right=True), Column("state"), Column("steps", right=True),
    Column("with tensors", right=True), Column("loss", right=True), Column("a step", right=True, spare=3),
    Column("recording cost", right=True, spare=2), Column("device", spare=4), Column("host", spare=5),
    Column("why", prose=True, spare=1),
)


class Part(StrEnum):
    """What of a run is printed."""

    BRIEF = "brief"
    """One screen."""
    RULES = "rules"
    """Every finding, and every rule that was not evaluated."""
    LAYERS = "layers"
    ALL = "all"


def print_run(place: str, worker: str | None = None, *, as_json: bool, part: Part = Part.BRIEF) -> None:
    """Print the run at `place`, or a part of what is known of it; as JSON all of it.

    Raises:
        UnknownWorker: There is no such worker.
        NotARun, NewerFormat, DamagedChunk, StoreError: It cannot be read.
    """
    run, printer = run_at(place), Printer()
    shown_worker = worker if worker is not None else speaker_of(run)
    run = OneWorker(run.store, shown_worker) if shown_worker is not None else run
    now = glance(run.store)
    run.keys()  # opens every file, so that what is damaged is known before anything is said of the run
    recall = recalled(run.store, run.damage)
    if as_json:
        _print_json(printer, run, shown_worker, now, recall)
    elif part is Part.BRIEF:
        _print_brief(printer, place, run, shown_worker, now, recall)
    elif part is Part.RULES:
        _print_rules(printer, place, now, recall)
    elif part is Part.LAYERS:
        _print_layers(printer, run, shown_worker, recall)
    else:
        _print(printer, place, run, shown_worker, now, recall)
    tell_damage(run, place)


def _print(printer: Printer, place: str, run: Run, worker: str | None, now: Glance, recall: Recall) -> None:
    printer.line(_title(place, run, now))
    printer.entries([*_facts(run, worker, now, recall), *_kept(place, run, recall)])
    if len(now.workers) > 1:
        printer.heading("Workers")
        printer.table(_WORKERS, [_worker(state) for state in now.workers])
    if origin := origin_of(run.store):
        printer.heading("Origin")
        printer.entries(origin_facts(origin))
    _print_rules(printer, place, now, recall)
    numbers = numbers_of(run)
    if numbers:
        printer.heading("Losses and other numbers")
        print_numbers(printer, numbers, more=f"barograph keys {place} --kind scalar")
    print_exhibits(printer, exhibits_of_run(run.store, run.manifest.run_id))
    _print_layers(printer, run, worker, recall)


def _title(place: str, run: Run, now: Glance) -> Text:
    return Text.assemble((shown(run.manifest.name or place), "bold"), "  ", state_text(now.state.value))


def _print_brief(printer: Printer, place: str, run: Run, worker: str | None, now: Glance, recall: Recall) -> None:
    summary, manifest = recall.summary, run.manifest
    facts = [("place", run.url), ("started", local_time(manifest.created_unix) + _lasted(manifest.created_unix, now))]
    if any(item.last is not None for item in summary.workers):
        facts.append(("recorded", recorded_line(summary)))
    told = {"because", "figures", "workers", "held", "checkpoints"}
    facts += [(name, f"{cell}") for name, cell in (*_facts(run, worker, now, recall), *_kept(place, run, recall))
              if name in told]
    print_brief(
        printer, place, head=_title(place, run, now), facts=facts, verdict=recall.verdict, problems=summary.problems,
        hint=_hint(place, now, recall) if summary.workers else RECORD_STEPS, unseen=summary.unseen,
        unjudged=not_evaluated_line(summary.not_evaluated) if recall.watched and not recall.problem else "",
        numbers=numbers_of(run), layers=layers_of(run, _findings_of(worker, recall)))


def _print_rules(printer: Printer, place: str, now: Glance, recall: Recall) -> None:
    """Print the problems, every finding behind them, and the rules that were not evaluated."""
    summary = recall.summary
    printer.heading("Problems", recall.verdict)
    for problem in summary.problems:
        printer.line(problem_head(problem), indent=2)
        for _, text in problem_rest(problem, evidence=len(problem.evidence)):
            printer.line(text, indent=_BELOW)
    if hint := _hint(place, now, recall):
        printer.line(hint, indent=2)
    if summary.findings:
        printer.heading("Findings")
        print_findings(printer, summary.findings, summary.diagnosis)
    unjudged = summary.not_evaluated_lines(whole=True)
    for title, texts in (("Not seen", summary.unseen), ("Not evaluated", unjudged), ("Warnings", summary.warnings)):
        if texts:
            printer.heading(title)
            for text in texts:
                printer.line(Text.assemble(("· ", "dim"), shown(text)), indent=2)


def _print_layers(printer: Printer, run: Run, worker: str | None, recall: Recall) -> None:
    judged = recall.watched and recall.complete and not recall.problem
    layers = layers_of(run, _findings_of(worker, recall))
    if layers:
        printer.heading("Layers", "norm ± standard deviation, of the last step recorded")
        print_layers(printer, layers, judged=judged)


def _findings_of(worker: str | None, recall: Recall) -> list[Finding]:
    """Return the findings that speak of what is shown: all, or those of the worker that was asked for."""
    findings = recall.summary.findings
    return [item for item in findings if worker is None or item.worker == group_of(worker)]


def _facts(run: Run, worker: str | None, now: Glance, recall: Recall) -> list[tuple[str, Cell]]:
    manifest = run.manifest
    facts: list[tuple[str, Cell]] = [("place", run.url)]
    if manifest.command:
        facts.append(("command", shlex.join(manifest.command)))
    facts.append(("started", local_time(manifest.created_unix) + _lasted(manifest.created_unix, now)))
    last = [(state.worker.name, state.last) for state in now.newest_workers
            if state.last is not None and worker in (None, state.worker.name)]
    name, lead = max(last, key=lambda item: item[1].step, default=("", None))
    if lead is None:
        return [*facts, ("workers", "none received" if now.state is RunState.STARTING else "none")]
    facts.append(("steps", _steps(lead, _published(name, recall))))
    if len(now.workers) == 1 and now.workers[0].ending and now.workers[0].ending.reason:
        facts.append(("because", now.workers[0].ending.reason))
    facts += [("coverage", _coverage(lead)), ("cost", _cost(lead))]
    if time := time_line(time_of_steps(run)):
        facts.append(("time", time))
    others = and_others(run, worker)
    return [*facts, ("figures", others)] if others else facts


def _kept(place: str, run: Run, recall: Recall) -> list[tuple[str, Cell]]:
    """Return what the run keeps to be made again or gone on from, with the command that says more."""
    facts: list[tuple[str, Cell]] = []
    typed = shlex.quote(place)
    if held := recall.summary.held:
        steps_held = f"step {held[0].step:,}" if len(held) == 1 else f"{len(held)} steps, the last {held[-1].step:,}"
        facts.append(("held", f"{steps_held}: barograph capsules {typed}"))
    if steps := steps_of_checkpoints(run.store):
        facts.append(("checkpoints", f"{len(steps)}, the last after {count(steps[-1], 'step')}: "
                                     f"barograph checkpoints {typed}"))
    return facts


def _published(worker: str, recall: Recall) -> int:
    """Return how many steps a worker's records say it made; 0 where they say nothing that its last sign does not."""
    return next((item.published for item in recall.summary.workers if item.name == worker), 0)


def _lasted(started_unix: float, now: Glance) -> str:
    if math.isnan(now.ended_unix) or now.ended_unix < started_unix:
        return ""
    so_far = " so far" if now.state in (RunState.RUNNING, RunState.UNKNOWN) else ""
    return f", {duration(now.ended_unix - started_unix)}{so_far}"


def _steps(last: Heartbeat, published: int) -> str:
    a_step = "" if math.isnan(last.step_secs) else f", {duration(last.step_secs)} each"
    dropped = f", {count(last.dropped_steps, 'step')} dropped" if last.dropped_steps else ""
    return f"{max(last.step, published):,}{a_step}{dropped}"


def _coverage(last: Heartbeat) -> str:
    seen = last.coverage
    return ", ".join([
        f"tensors in {seen.steps_seen:,} of {count(seen.steps, 'step')}",
        f"{seen.parameters_seen} of {count(seen.parameters, 'parameter')}",
        f"{seen.gradients_seen} of {count(seen.parameters, 'gradient')}",
        f"{seen.modules_seen} of {count(seen.modules, 'module')}",
        "the loss" if seen.loss_seen else "no loss", count(seen.evaluations, "evaluation"),
    ])


def _cost(last: Heartbeat) -> str:
    cost = last.cost
    budget = "" if math.isnan(cost.budget) else f" (budget {100 * cost.budget:g}%)"
    return f"{share(cost.share)} of the training time{budget}, {duration(cost.startup_secs)} to start"


def _worker(state: WorkerState) -> list[Cell]:
    last = state.last
    why = state.ending.reason if state.ending else ""
    head: list[Cell] = [state.worker.name, f"{state.worker.attempt}", state_text(state.standing.value)]
    tail: list[Cell] = [state.worker.device, state.worker.host, why]
    if last is None:
        return [*head, "", "", "", "", "", *tail]
    loss = figure(last.loss) if last.coverage.loss_seen else ""
    a_step = "" if math.isnan(last.step_secs) else duration(last.step_secs)
    return [*head, f"{last.step}", f"{last.coverage.steps_seen}", loss, a_step, share(last.cost.share), *tail]


def _hint(place: str, now: Glance, recall: Recall) -> str:
    if recall.problem:
        return f"{recall.problem} To judge it anew: barograph watch {place} --fresh"
    if not recall.watched:
        return f"To have it judged: barograph watch {place}"
    if not recall.complete and now.state not in (RunState.RUNNING, RunState.STARTING):
        return f"Its last watcher did not get to the end. To go on: barograph watch {place}"
    return ""


def _print_json(printer: Printer, run: Run, worker: str | None, now: Glance, recall: Recall) -> None:
    judged = recall.watched and recall.complete and not recall.problem
    manifest = run.manifest
    printer.json({
        "url": run.url, "name": manifest.name, "run_id": manifest.run_id, "state": now.state,
        "origin": origin.to_json() if (origin := origin_of(run.store)) else None,
        "started_unix": manifest.created_unix, "command": manifest.command, "versions": manifest.versions,
        "attempt": now.attempt, "worker": worker, "figures": and_others(run, worker),
        "steps": max([now.steps, *(item.published for item in recall.summary.workers)]), "loss": now.loss,
        "verdict": recall.verdict,
        "watched": recall.watched, "judged_all": recall.complete,
        "open_findings": sum(item.state is FindingState.OPEN for item in recall.summary.findings),
        "problems": [item.to_json() for item in recall.summary.problems],
        "diagnosis": [asdict(item) for item in recall.summary.diagnosis],
        "findings": [item.to_json() for item in recall.summary.findings],
        "not_evaluated": recall.summary.not_evaluated, "unseen": recall.summary.unseen,
        "warnings": recall.summary.warnings, "workers": [_worker_to_json(state) for state in now.workers],
        "time": time_of_steps(run), "numbers": [number_to_json(number) for number in numbers_of(run)],
        "layers": [layer_to_json(layer, judged=judged) for layer in layers_of(run, _findings_of(worker, recall))],
        "held": recall.summary.to_json()["held"], "checkpoints": steps_of_checkpoints(run.store),
        "go_on_from": recall.summary.go_on_from,
        "exhibits": [item.to_json() for item in exhibits_of_run(run.store, manifest.run_id)],
        "damage": run.damage,
    })


def _worker_to_json(state: WorkerState) -> dict[str, object]:
    last = None if state.last is None else {**asdict(state.last), "cost_share": state.last.cost.share}
    return {
        "name": state.worker.name, "attempt": state.worker.attempt, "state": state.standing,
        "reason": state.ending.reason if state.ending else "", "host": state.worker.host, "pid": state.worker.pid,
        "device": state.worker.device, "world_size": state.worker.world_size, "last": last,
    }
