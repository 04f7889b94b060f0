"""Output of `barograph show` with options."""

from __future__ import annotations

import math
import shlex
from enum import StrEnum

from rich.text import Text

from barograph.cli.inspect.exhibits_text import print_exhibits
from barograph.cli.inspect.findings import print_findings
from barograph.cli.inspect.layers_table import print_layers
from barograph.cli.inspect.numbers import print_numbers
from barograph.cli.inspect.origin_entries import origin_facts, print_origin_damage
from barograph.cli.inspect.show_brief import print_brief
from barograph.cli.inspect.time_line import time_line
from barograph.cli.jobs.job_line import job_line, state_of_job
from barograph.cli.opening import print_damage, run_at
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import state_text
from barograph.experiments.shown import exhibits_of_run
from barograph.jobs.state import Phase
from barograph.model.manifest import Heartbeat
from barograph.queries.layers import layer_rows
from barograph.queries.memory_at_end import out_of_memory
from barograph.queries.numbers import numbers_of
from barograph.queries.run import RunNow, origin_of, run_details, run_now
from barograph.queries.step_time import step_time_of
from barograph.queries.wording import not_evaluated_line, problem_rest
from barograph.queries.workers import chosen
from barograph.runs.reading.glance import RunState
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.roster import WorkerState
from barograph.runs.state.checkpoints import steps_of_checkpoints
from barograph.watch.closing import how_to_record_steps, recorded_lines
from barograph.watch.figures import count, duration, figure, local_time, share
from barograph.watch.wording import problem_head, recording_cost, shown

_BELOW = 12
"""Indentation of the details of a problem."""

_WORKERS = (
    Column("worker"), Column("attempt", right=True), Column("state"), Column("steps", right=True),
    Column("with tensors", right=True), Column("loss", right=True), Column("a step", right=True, spare=3),
    Column("recording cost", right=True, spare=2), Column("device", spare=4), Column("host", spare=5),
    Column("why", prose=True, spare=1),
)


class Part(StrEnum):
    """Sections to print."""

    BRIEF = "brief"
    """One screen."""
    RULES = "rules"
    """Every finding, and every rule that was not evaluated."""
    LAYERS = "layers"
    ALL = "all"


def print_run(place: str, worker: str | None = None, *, as_json: bool, part: Part = Part.BRIEF) -> None:
    """Print the run at `place` or a part of it; as JSON, everything.

    Raises:
        UnknownWorker: The worker does not exist.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    printer = Printer()
    run, shown_worker = chosen(run_at(place), worker)
    if as_json:
        details = run_details(run, shown_worker, exhibits=exhibits_of_run(run.store, run.manifest.run_id))
        print_origin_damage(details.origin_problem)
        printer.json(details.to_json())
    else:
        now = run_now(run, shown_worker)
        if part is Part.BRIEF:
            _print_brief(printer, place, run, now)
        elif part is Part.RULES:
            _print_rules(printer, place, now)
        elif part is Part.LAYERS:
            _print_layers(printer, run, now)
        else:
            _print(printer, place, run, now)
    print_damage(run, place)


def _print(printer: Printer, place: str, run: RunReader, now: RunNow) -> None:
    printer.line(_title(place, now, _job_state(run, now)))
    printer.entries([*_facts(run, now), *_kept(place, run, now)])
    if len(now.glance.workers) > 1:
        printer.heading("Workers")
        printer.table(_WORKERS, [_worker(state) for state in now.glance.workers])
    origin, problem = origin_of(run)
    print_origin_damage(problem)
    if origin:
        printer.heading("Origin")
        printer.entries(origin_facts(origin))
    _print_rules(printer, place, now)
    numbers = numbers_of(run)
    if numbers:
        printer.heading("Losses and other numbers")
        print_numbers(printer, numbers, more=f"barograph keys {place} --kind scalar")
    print_exhibits(printer, exhibits_of_run(run.store, run.manifest.run_id))
    _print_layers(printer, run, now)


def _title(place: str, now: RunNow, job_state: str) -> Text:
    return Text.assemble((shown(now.manifest.name or place), "bold"), "  ", state_text(job_state or now.state.value))


def _job_state(run: RunReader, now: RunNow) -> str:
    """Return the state of the run's job while no process records; "" otherwise."""
    return "" if now.glance.workers else state_of_job(run.store)


def _print_brief(printer: Printer, place: str, run: RunReader, now: RunNow) -> None:
    summary = now.summary
    facts = [("place", now.url), ("started", _started(now))]
    if any(item.last is not None for item in summary.workers):
        facts.append(("recorded", recorded_lines(summary)[0]))
    in_brief = {"job", "because", "figures", "workers", "held", "checkpoints"}
    facts += [(name, f"{cell}") for name, cell in (*_facts(run, now), *_kept(place, run, now))
              if name in in_brief and not (name == "because" and summary.is_said(f"{cell}"))]
    unjudged = now.recall.watched and not now.recall.problem and not summary.logged
    job_state = _job_state(run, now)
    hint = how_to_record_steps(summary) if summary.may_train and job_state in ("", Phase.FINISHED) else ""
    print_brief(
        printer, place, head=_title(place, now, job_state), facts=facts, verdict=now.verdict,
        problems=summary.problems, hint=now.hint(place) if summary.workers else hint, unseen=summary.unseen,
        unjudged=not_evaluated_line(summary.not_evaluated) if unjudged else "",
        numbers=numbers_of(run), layers=layer_rows(run, now.findings, judged=now.judged))


def _print_rules(printer: Printer, place: str, now: RunNow) -> None:
    """Print the problems, every finding behind them, and the rules that were not evaluated."""
    summary = now.summary
    printer.heading("Problems", now.verdict)
    for problem in summary.problems:
        printer.line(problem_head(problem), indent=2)
        for _, text in problem_rest(problem, evidence=len(problem.evidence)):
            printer.line(text, indent=_BELOW)
    if hint := now.hint(place):
        printer.line(hint, indent=2)
    if summary.findings:
        printer.heading("Findings")
        titles = {item.id: problem.title for problem in summary.problems[::-1] for item in problem.findings}
        print_findings(printer, summary.findings, summary.diagnosis, titles)
    unjudged = summary.not_evaluated_lines(whole=True)
    for title, texts in (("Not seen", summary.unseen), ("Not evaluated", unjudged), ("Warnings", summary.warnings)):
        if texts:
            printer.heading(title)
            for text in texts:
                printer.line(Text.assemble(("· ", "dim"), shown(text)), indent=2)


def _print_layers(printer: Printer, run: RunReader, now: RunNow) -> None:
    if layers := layer_rows(run, now.findings, judged=now.judged):
        printer.heading("Layers", "norm ± standard deviation, of the last step recorded")
        print_layers(printer, layers)


def _facts(run: RunReader, now: RunNow) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [("place", now.url)]
    if now.manifest.command:
        facts.append(("command", shlex.join(now.manifest.command)))
    if job := job_line(run.store):
        facts.append(("job", job))
    facts.append(("started", _started(now)))
    last, steps = now.furthest
    if last is None:
        return [*facts, ("workers", "none received" if now.state is RunState.STARTING else "none")]
    facts.append(("steps", _steps(last, steps)))
    if reason := now.reason or (out_of_memory(run) if now.state is RunState.KILLED else ""):
        facts.append(("because", reason))
    facts += [("coverage", _coverage(last)), ("cost", _cost(last))]
    if time := time_line(step_time_of(run)):
        facts.append(("time", time))
    return [*facts, ("figures", now.figures)] if now.figures else facts


def _kept(place: str, run: RunReader, now: RunNow) -> list[tuple[str, Cell]]:
    """Return what is stored for reproducing or resuming the run, and the commands that show it."""
    facts: list[tuple[str, Cell]] = []
    typed = shlex.quote(place)
    if held := now.summary.held:
        steps_held = f"step {held[0].step:,}" if len(held) == 1 else f"{len(held)} steps, the last {held[-1].step:,}"
        facts.append(("held", f"{steps_held}: barograph capsules {typed}"))
    if steps := steps_of_checkpoints(run.store):
        facts.append(("checkpoints", f"{len(steps)}, the last after {count(steps[-1], 'step')}: "
                                     f"barograph checkpoints {typed}"))
    return facts


def _started(now: RunNow) -> str:
    started = local_time(now.manifest.created_unix)
    if math.isnan(now.secs):
        return started
    so_far = " so far" if now.state in (RunState.RUNNING, RunState.UNKNOWN) else ""
    return f"{started}, {duration(now.secs)}{so_far}"


def _steps(last: Heartbeat, steps: int) -> str:
    a_step = "" if math.isnan(last.step_secs) else f", {duration(last.step_secs)} each"
    dropped = f", {count(last.dropped_steps, 'step')} dropped" if last.dropped_steps else ""
    return f"{steps:,}{a_step}{dropped}"


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
    return f"{recording_cost(last.cost).removeprefix('recording cost ')}, {duration(last.cost.startup_secs)} to start"


def _worker(state: WorkerState) -> list[Cell]:
    last = state.last
    why = state.ending.reason if state.ending else ""
    head: list[Cell] = [state.worker.name, f"{state.worker.attempt}", state_text(state.standing.value)]
    tail: list[Cell] = [state.worker.device, state.worker.host, why]
    if last is None:
        return [*head, "", "", "", "", "", *tail]
    loss = figure(last.loss) if last.coverage.loss_seen else ""
    a_step = "" if math.isnan(last.step_secs) else duration(last.step_secs)
    cost = "" if last.cost.too_short else share(last.cost.share)
    return [*head, f"{last.step}", f"{last.coverage.steps_seen}", loss, a_step, cost, *tail]
