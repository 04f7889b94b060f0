"""Output of `barograph submit`."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from barograph.cli.jobs.waiting import exit_code_of, follow
from barograph.cli.record.run import settings_of, start_studio
from barograph.errors import SettingsError
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import JobView
from barograph.jobs.spec import JobSpec, entries_of_file, spec_from_options
from barograph.jobs.submitting import Plan, Submitted, plan_of, submit
from barograph.model.notify import notify_to_json
from barograph.watch.figures import count, duration, size

if TYPE_CHECKING:
    from barograph.cli.printing import Printer

_OF_JOBS = (
    "algorithm", "target", "name", "instances", "processes", "cpus", "memory", "gpus", "engine", "cluster", "spot",
    "max_wait", "max_runtime", "max_restarts", "retries", "price", "spot_price", "requirements",
    "no_network", "env_file", "keep_alive",
)

_MOST_NOTES = 3


def submit_typed(typed: Mapping[str, Any]) -> None:
    """Submit the job, or with --dry-run show what it would do.

    Raises:
        SettingsError: An option is wrong.
        JobRefused: The job has problems.
    """
    spec = spec_of(typed)
    if typed["dry_run"]:
        from barograph.cli.printing import Printer

        _print_plan(plan_of(spec, JobsHome()), Printer(), as_json=typed["as_json"])
        return
    if typed["studio"] and typed["as_json"]:
        raise typer.BadParameter("--studio and --json cannot be combined: the link would break the JSON output")
    submitted = submit(spec, to=typed["to"] or "")
    if typed["studio"]:
        start_studio(submitted.store.url)
    tell_submitted(submitted, wait=typed["wait"], as_json=typed["as_json"], live=typed["live"])


def tell_submitted(submitted: Submitted, *, wait: bool, as_json: bool, live: bool = True) -> None:
    """Print the name of a job, or follow it to its end and exit with its code."""
    view = JobView(submitted.name, submitted.store)
    for note in submitted.notes[:_MOST_NOTES]:
        print(f"barograph: note: {note}", file=sys.stderr)
    if (more := len(submitted.notes) - _MOST_NOTES) > 0:
        print(f"barograph: {more:,} more notes: barograph submit --dry-run", file=sys.stderr)
    if wait:
        raise typer.Exit(exit_code_of(follow(view, as_json=as_json, live=live)))
    from barograph.cli.printing import Printer  # loaded here: it loads rich, and the job has started

    if as_json:
        Printer().json(view.report().to_json())
    else:
        Printer().line(submitted.name)


def spec_of(typed: Mapping[str, Any], entries: Mapping[str, Any] | None = None) -> JobSpec:
    """Return the job: the options on top of its job file.

    Args:
        typed: The options; if `entries` are given, the command has only changes to hyperparameters.
        entries: Entries of its job file; None: the first word of the command may be one.

    Raises:
        SettingsError: An option or an entry is invalid.
    """
    words = list(typed["command"] or ())
    if entries is None and words and words[0].endswith(".toml"):
        entries = entries_of_file(Path(words.pop(0)))
    if entries is not None:
        changes = pairs(words, "a change of a hyperparameter")
    elif typed["algorithm"] or not words:
        changes = pairs(words, "a hyperparameter")
    else:
        entries, changes = {"command": words}, {}
    entries = entries or {}
    given = {name: typed[name] for name in _OF_JOBS if typed[name] is not None}
    for name, value in (("data", pairs(typed["data"] or (), "--data")), ("checkpoint", typed["checkpoint_every"]),
                        ("environment", typed["env"])):
        if value:
            given[name] = {**entries.get("data", {}), **value} if name == "data" else value
    settings = settings_of({**typed, "to": None, "checkpoint": None}, entries.get("settings"))
    spec = spec_from_options({**entries, **given, "settings": {
        **settings.to_json(), "notify": [notify_to_json(item) for item in settings.notify]}})
    return spec.changed(changes) if changes else spec


def pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """Return NAME=VALUE strings as a dictionary.

    Raises:
        SettingsError: A string has another form, or a name occurs twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or name in found:
            why = f'"{name}" comes twice' if name in found else "it must be NAME=VALUE"
            if text.startswith("-"):
                why += ", and options come before the job file and its changes"
            raise SettingsError(f'{what} is "{text}": {why}.')
        found[name] = value
    return found


def _print_plan(plan: Plan, printer: Printer, *, as_json: bool) -> None:
    if as_json:
        printer.json(plan.to_json())
    else:
        printer.entries([(name, text) for name, text in _plan_lines(plan) if text])
        for note in plan.notes:
            printer.line(f"note: {note}")
        for problem in plan.problems:
            printer.line(f"problem: {problem}")
        printer.line("Nothing was started." if not plan.problems else
                     "Nothing was started. Fix the problems, then submit without --dry-run.")
    if plan.problems:
        raise typer.Exit(2)


def _plan_lines(plan: Plan) -> list[tuple[str, str]]:
    spec = plan.spec
    cpus = f"{spec.cpus:g} CPU{'' if spec.cpus == 1 else 's'}"
    memory = f", {size(spec.memory_bytes)} of memory" if spec.memory_bytes else ""
    gpus = f", {count(spec.gpus, 'GPU')}" if spec.gpus else ""
    each = ", each" if spec.instances > 1 else ""
    instances = count(spec.instances, "spot instance" if spec.spot else "instance")
    limits = [f"{duration(secs)} {what} at most" for secs, what in (
        (spec.max_runtime_secs, "of training"), (spec.max_wait_secs, "including waiting")) if math.isfinite(secs)]
    prices = [f"{price:g} {what}" for price, what in (
        (spec.price, "on demand"), (spec.spot_price, "spot")) if math.isfinite(price)]
    return [
        ("runs", shlex.join(spec.shown)),
        ("on", f"{instances} ({spec.engine}){each} with {cpus}{memory}{gpus}"),
        ("time", ", ".join(limits)), ("price", f"{', '.join(prices)} per instance and hour" if prices else ""),
        *((f"data {name}", text) for name, text in plan.data.items()),
        ("code", plan.code), ("packages", plan.packages),
    ]


