"""Routes for charts, layers, steps and data; many take several runs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barograph.errors import BarographError, SettingsError, UnknownKey, UnknownName, UnknownStep
from barograph.experiments.shown import exhibits_of_run
from barograph.model.exhibits import Picture
from barograph.model.key import kind_from_name
from barograph.model.plain import plain
from barograph.queries.chart import STEP, Axis, chart_lines
from barograph.queries.chart_names import chart_list, name_tree
from barograph.queries.heat import heat_map
from barograph.queries.recorded import recorded_steps
from barograph.queries.recording_cost import recording_cost
from barograph.queries.step_record import saved_steps, step_record
from barograph.queries.tensor_history import LIMITS, exponent_map, keys_of_layer, units_at
from barograph.queries.trace import data_sets, seen_name, seen_sample
from barograph.runs.reading.reader import RunReader
from barograph.web.answers import encoded, encoded_answer, json_answer, number_in
from barograph.web.embedding import embedded
from barograph.web.opened import OpenRuns

MOST_POINTS = 10_000
MOST_LINES = 64
"""Maximum number of lines of a run in one answer."""

MOST_RUNS = 200
_MOST_BATCHES, _MOST_ROWS = 500, 20
GONE = 499
"""Status for a client that has gone, as other servers log it."""


def lines(reader: RunReader, request: Request) -> Any:
    """Lines of charts, and the names that the run lacks."""
    asked = request.query_params
    names = names_in(request)
    found = chart_lines(reader, names, points=points_in(request), axis=axis_in(request),
                        statistic=asked.get("statistic", "l2"), smooth=asked.get("smooth") == "1")
    drawn = {line.name for line in found}
    return {"lines": [line.to_json() for line in found], "missing": [name for name in names if name not in drawn]}


def charts(reader: RunReader, request: Request) -> Any:
    """Charts of plain numbers that match a search, pinned ones first."""
    asked = request.query_params
    return chart_list(reader, asked.get("search", ""), pinned=asked.getlist("pin"),
                      offset=max(0, number_in(request, "offset", 0) or 0)).to_json()


def names(reader: RunReader, request: Request) -> Any:
    """One level of the tree of everything that a chart can show."""
    asked = request.query_params
    return name_tree(reader, asked.get("prefix", ""), asked.get("search", "")).to_json()


def recorded(reader: RunReader, request: Request) -> Any:
    """Training steps with tensors, and without."""
    return reader.once("recorded steps", lambda: recorded_steps(reader)).to_json()


def cells(reader: RunReader, request: Request) -> Any:
    """Heat map of one statistic over layers and steps."""
    kind, statistic = kind_from_name(request.query_params.get("kind", "output")), \
        request.query_params.get("statistic", "norm")
    return reader.once(("heat", kind, statistic), lambda: heat_map(reader, kind, statistic)).to_json()


def tensors(reader: RunReader, request: Request) -> Any:
    """Exponent histograms of the tensors of a layer over the steps, and its units at a step."""
    layer, kind = request.query_params.get("layer", ""), kind_from_name(request.query_params.get("kind", "output"))
    step = number_in(request, "step", 0) or 0
    keys = keys_of_layer(reader, layer, kind)
    maps, units, without = [], [], []
    for key in keys:
        try:
            maps.append(reader.once(("exponents", key), partial(exponent_map, reader, key)).to_json())
        except UnknownKey:
            without.append(str(key))
        with contextlib.suppress(UnknownStep):  # few presets record units
            units.append(units_at(reader, key, step).to_json())
    return {"keys": list(map(str, keys)), "maps": maps, "without_histogram": without, "units": units,
            "limits": plain(LIMITS)}


def everything(reader: RunReader, request: Request) -> Any:
    """Everything that was recorded at a step."""
    step = number_in(request, "step")
    if step is None:
        raise SettingsError("step is missing.")
    return step_record(reader, step).to_json()


def saved(reader: RunReader, request: Request) -> Any:
    """Steps of the run that were saved for replay."""
    return [{"capsule": item.capsule.to_json(), "command": item.command, "replayed": item.replay is not None,
             "problem": item.problem} for item in saved_steps(reader)]


def exhibits(reader: RunReader, request: Request) -> Any:
    """Tables, images and curves that the script logged; images have URLs of their own."""
    return [item.to_json() for item in exhibits_of_run(reader.store, reader.manifest.run_id)]


def trace(reader: RunReader, request: Request) -> Any:
    """Data sets that the steps used."""
    found = reader.once("trace", reader.trace)
    return {"data_sets": data_sets(found).to_json(), "dropped_batches": found.dropped_batches}


def uses(reader: RunReader, request: Request) -> Any:
    """Batches that contained a sample: its index, or its name, the end of the name, or a pattern."""
    found, sample = reader.once("trace", reader.trace), request.query_params.get("sample", "").strip()
    seen = seen_sample(found, sample)
    if seen.is_name:
        seen = seen_name(found, sample)
    return {"count": len(seen.batches), "batches": plain(
        [{"step": item.batch.step, "pass": item.batch.pass_number, "loader": item.batch.loader,
          "samples": [item.batch.samples[row] for row in item.rows[:_MOST_ROWS]]}
         for item in seen.batches[:_MOST_BATCHES]])}


def cost(reader: RunReader, request: Request) -> Any:
    """Cost of recording, and its budget."""
    return recording_cost(reader).to_json()


QUESTIONS: Mapping[str, Callable[[RunReader, Request], Any]] = {
    item.__name__: item
    for item in (lines, charts, names, recorded, cells, tensors, everything, saved, exhibits, trace, uses, cost)
}
"""Questions about runs, by the last part of their URL."""


def charting_routes(opened: OpenRuns) -> list[Route]:
    """Return these routes.

    Each takes one or several runs and returns a list with an entry per run: the data, or `error` if the run cannot be
    read. Reading stops when the client disconnects.
    """

    def about(question: Callable[[RunReader, Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        def of_run(key: str, request: Request) -> bytes:
            with opened.run(key) as reader:
                # Encoded run by run: other requests wait while a long answer is encoded.
                return encoded(question(reader, request))

        async def answer(request: Request) -> Response:
            keys = request.query_params.getlist("run")[:MOST_RUNS]
            if len(keys) == 1:
                return encoded_answer(request, await run_in_threadpool(of_run, keys[0], request))
            found = []
            for key in keys:
                if await request.is_disconnected():
                    return Response(status_code=GONE)
                try:
                    found.append(await run_in_threadpool(of_run, key, request))
                except BarographError as error:
                    found.append(encoded({"error": str(error)}))
            return encoded_answer(request, b"[" + b",".join(found) + b"]")
        return answer

    def picture(request: Request) -> Response:
        title = request.query_params.get("title", "")
        with opened.run(request.query_params.get("run", "")) as reader:
            found = [item for item in exhibits_of_run(reader.store, reader.manifest.run_id)
                     if isinstance(item, Picture) and item.title == title]
        if not found:
            raise UnknownName(f'This run has no image "{title}".')
        if request.query_params.get("view") == "embedded":
            return json_answer(request, embedded([found[0].data], found[0].media_type))
        # Opened by itself, an SVG could run scripts; as the source of an image it cannot.
        return Response(found[0].data, media_type=found[0].media_type,
                        headers={"content-disposition": "attachment", "cache-control": "no-cache"})

    return [*(Route(f"/api/{name}", about(question)) for name, question in QUESTIONS.items()),
            Route("/api/picture", picture)]


def names_in(request: Request) -> list[str]:
    """Return the lines that a request asks for."""
    return list(dict.fromkeys(request.query_params.getlist("name")))[:MOST_LINES]


def points_in(request: Request) -> int:
    """Return the number of points per line.

    Raises:
        SettingsError: It is too small or too large.
    """
    points = number_in(request, "points", 1200) or 0
    if not 2 <= points <= MOST_POINTS:
        raise SettingsError(f"points is {points}; expected 2 to {MOST_POINTS}.")
    return points


def axis_in(request: Request) -> Axis:
    """Return the x axis of a request.

    Raises:
        SettingsError: An end is not a number.
    """
    asked = request.query_params
    return Axis(asked.get("x", STEP) or STEP, _float_in(request, "from"), _float_in(request, "to"),
                asked.get("logx") == "1")


def _float_in(request: Request, name: str) -> float | None:
    text = request.query_params.get(name)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f"{name} is {text[:50]!r}; expected a number.")
    return number
