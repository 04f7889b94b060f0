"""Routes for groups of runs: names to group by, and one band of curves per group."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.errors import BarographError, SettingsError
from barograph.experiments.comparing import group_of
from barograph.experiments.item import Item
from barograph.experiments.run_columns import COLOR
from barograph.queries.bands import Part, bands, parts_of_run
from barograph.web.answers import json_answer
from barograph.web.catalogs import Catalogs
from barograph.web.charting import GONE, MOST_RUNS, axis_in, names_in, points_in
from barograph.web.opened import OpenRuns

_MOST_CHOICES = 200


def grouping_routes(opened: OpenRuns, catalogs: Catalogs) -> list[BaseRoute]:
    """Return the routes about groups of the runs that `run` names, given more than once."""

    def grouping(request: Request) -> Response:
        items = [catalogs.run(key)[1] for key in request.query_params.getlist("run")[:MOST_RUNS]]
        by = request.query_params.get("by", "")
        return json_answer(request, {"choices": grouping_choices(items)[:_MOST_CHOICES],
                                     "groups": [group_of(item, by) for item in items] if by else []})

    def parts(key: str, request: Request) -> list[Part]:
        with opened.run(key) as reader:
            return parts_of_run(reader, names_in(request), columns=_columns(request), axis=axis_in(request),
                                statistic=request.query_params.get("statistic", "l2"))

    async def groups(request: Request) -> Response:
        keys, numbers = request.query_params.getlist("run")[:MOST_RUNS], _groups(request)
        if len(keys) != len(numbers):
            raise SettingsError(f"The request has {len(keys)} runs but {len(numbers)} groups; give each run a group.")
        by_group: list[list[list[Part]]] = [[] for _ in range(max(numbers, default=-1) + 1)]
        problems = {}
        for key, number in zip(keys, numbers, strict=True):
            if await request.is_disconnected():
                return Response(status_code=GONE)
            try:
                by_group[number].append(await run_in_threadpool(parts, key, request))
            except BarographError as error:
                problems[key] = str(error)

        def answer() -> Response:
            logx = request.query_params.get("logx") == "1"
            found = [[band.to_json() for band in bands(members, columns=_columns(request), log=logx)]
                     for members in by_group]
            return json_answer(request, {"groups": found, "problems": problems})

        # Many runs with many points take seconds, in which the server must answer others.
        return await run_in_threadpool(answer)

    return [Route("/api/grouping", grouping), Route("/api/bands", groups)]


def grouping_choices(items: Sequence[Item]) -> list[str]:
    """Return names that split runs into several groups: parameters, then experiment, trial and tags.

    Names that make each run a group of its own come last.
    """
    names = [*dict.fromkeys(f"params.{name}" for item in items for name in item.parameters), "experiment", "trial",
             *dict.fromkeys(f"tags.{name}" for item in items for name in item.tags if f"tags.{name}" != COLOR)]
    counts = {name: len({group_of(item, name) for item in items}) for name in names}
    return sorted((name for name in names if counts[name] > 1), key=lambda name: counts[name] == len(items))


def _columns(request: Request) -> int:
    return max(1, points_in(request) // 2)


def _groups(request: Request) -> list[int]:
    try:
        numbers = [int(text) for text in request.query_params.getlist("group")][:MOST_RUNS]
    except ValueError:
        raise SettingsError("group must be an integer.") from None
    if any(not 0 <= number < MOST_RUNS for number in numbers):
        raise SettingsError(f"group must be 0 to {MOST_RUNS - 1}.")
    return numbers
