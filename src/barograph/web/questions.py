"""Queries of runs by name, one per route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request

from barograph.errors import SettingsError, UnknownKey
from barograph.model.key import Kind, kind_from_name
from barograph.model.plain import plain
from barograph.queries.chart import chart_line
from barograph.queries.chart_names import chart_names, known_series
from barograph.queries.classes import classes_in
from barograph.queries.distributions import distributions_in
from barograph.queries.heat import heat_map
from barograph.queries.layers import layer_rows
from barograph.queries.loss_name import training_loss
from barograph.queries.machine import machine_in, step_time_in
from barograph.queries.numbers import numbers_of
from barograph.queries.output import output_of
from barograph.queries.predictions import predictions_in
from barograph.queries.run import RunNow, last_loss, origin_of, run_now, worker_to_json
from barograph.queries.step import step_around
from barograph.queries.step_time import step_time_of
from barograph.queries.wording import not_evaluated_line
from barograph.runs.reading.reader import RunReader
from barograph.web.answers import cell, number_in
from barograph.web.shapes import NUMBERS_OF_STEP

_MOST_POINTS = 10_000
_MOST_NAMES = 200
"""Maximum number of names of charts with a run; `charts` and `names` find the others."""

Question = Callable[[RunReader, Request], Any]


def run(reader: RunReader, request: Request) -> Any:
    """State, problems, findings, and what was not recorded."""
    now = run_now(reader)
    names = chart_names(reader)
    return {**_now_to_json(now), "loss": cell(last_loss(reader, now)), "charts": names[:_MOST_NAMES],
            "chart_count": len(names)}


def curves(reader: RunReader, request: Request) -> Any:
    """Lines of a chart; each run has those that it recorded."""
    points = number_in(request, "points", 1200) or 0
    if not 2 <= points <= _MOST_POINTS:
        raise SettingsError(f"points is {points}; expected 2 to {_MOST_POINTS}.")
    start, stop = number_in(request, "from"), number_in(request, "to")
    lines = []
    names = request.query_params.getlist("name")
    if "loss" in names:
        # Lists ask for the loss of every run, also where the script logs it under another name.
        names = [training_loss(known_series(reader)) or name if name == "loss" else name for name in names]
    for name in dict.fromkeys(names):
        try:
            lines.append(chart_line(reader, name, points=points, start=start, stop=stop).to_json())
        except UnknownKey:
            # A run may have recorded none yet.
            if name != "loss" and len(request.query_params.getlist("run")) == 1:
                raise
    return lines


def layers(reader: RunReader, request: Request) -> Any:
    """Layers and their health."""
    now = run_now(reader)
    return [row.to_json() for row in layer_rows(reader, now.findings, judged=now.judged)]


def heat(reader: RunReader, request: Request) -> Any:
    """Heat map of one statistic over layers and steps."""
    kind = kind_from_name(request.query_params.get("kind", Kind.GRADIENT.value))
    return heat_map(reader, kind, request.query_params.get("statistic", "norm")).to_json()


def step(reader: RunReader, request: Request) -> Any:
    """One step and its neighbors."""
    number = number_in(request, "step")
    if number is None:
        raise SettingsError("step is missing.")
    around = step_around(reader, number)
    data = around.to_json()
    for row, seen in zip(data["steps"], around.steps, strict=True):
        row.update({name: cell(getattr(seen, name)) for name in NUMBERS_OF_STEP})
    return data


def distributions(reader: RunReader, request: Request) -> Any:
    """Distributions of tensors over the steps."""
    found, left_out = distributions_in(reader, run_now(reader).findings)
    return {"distributions": [item.to_json() for item in found], "left_out": left_out}


def time(reader: RunReader, request: Request) -> Any:
    """Where the time of steps goes, and what the machine did."""
    parts = step_time_in(reader)
    return {"time": step_time_of(reader).to_json(), "parts": None if parts is None else parts.to_json(),
            "machine": [gauge.to_json() for gauge in machine_in(reader)]}


def data(reader: RunReader, request: Request) -> Any:
    """Classes, confusion matrices, ROC curves, residuals."""
    rocs, residuals, problems = predictions_in(reader)
    return {"classes": [item.to_json() for item in classes_in(reader)], "rocs": [item.to_json() for item in rocs],
            "residuals": [item.to_json() for item in residuals], "problems": problems}


def output(reader: RunReader, request: Request) -> Any:
    """What the script printed."""
    return [item.to_json() for item in output_of(reader.store)]


def origin(reader: RunReader, request: Request) -> Any:
    """Code and environment."""
    found, problem = origin_of(reader)
    return {"origin": None if found is None else plain(found.to_json()), "problem": problem,
            "settings": plain(reader.manifest.settings), "versions": plain(reader.manifest.versions)}


def numbers(reader: RunReader, request: Request) -> Any:
    """Losses, logged numbers and learning rates, thinned."""
    return [item.to_json() for item in numbers_of(reader)]


QUESTIONS: Mapping[str, Question] = {
    item.__name__: item
    for item in (run, curves, layers, heat, step, distributions, time, data, output, origin, numbers)
}
"""Questions about one run, by the last part of their URL."""


def _now_to_json(now: RunNow) -> dict[str, Any]:
    manifest, summary = now.manifest, now.summary
    beat, _ = now.furthest
    data: dict[str, Any] = plain({
        "url": now.url, "name": manifest.name, "run_id": manifest.run_id, "state": now.state, "reason": now.reason,
        "started_unix": manifest.created_unix, "ended_unix": now.glance.ended_unix, "secs": now.secs,
        "command": manifest.command, "attempt": now.glance.attempt, "steps": now.steps,
        "cost_share": now.glance.cost, "verdict": now.verdict, "judged": now.judged,
        "open_problems": now.open_problems, "problems": [item.to_json() for item in summary.problems],
        "findings": [item.to_json() for item in summary.findings], "unseen": summary.unseen,
        "incidents": summary.incidents, "warnings": summary.warnings,
        "not_evaluated": not_evaluated_line(summary.not_evaluated),
        "workers": [worker_to_json(state) for state in now.glance.workers],
        "held": summary.to_json()["held"], "actions": summary.to_json()["actions"],
        "go_on_from": summary.go_on_from, "damage": now.recall.problem,
        "recorded": None if beat is None else beat.coverage.steps_seen,
    })
    return data
