"""The web application: pages, answers, and who may ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barograph.errors import BarographError
from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import reports_of
from barograph.model.clock import Clock
from barograph.queries.run_list import runs_in
from barograph.web.answers import error_answer, json_answer
from barograph.web.changes import Changes, change_routes
from barograph.web.charting import charting_routes
from barograph.web.opened import OpenRuns
from barograph.web.page_files import page_routes
from barograph.web.places import Places
from barograph.web.protection import Protection
from barograph.web.questions import QUESTIONS, Question
from barograph.web.saving import saving_routes
from barograph.web.schema import schema_of
from barograph.web.searching import RunLists
from barograph.web.shapes import SHAPES

_MOST_JOBS = 200


def application(
    roots: Sequence[str], *, hosts: Sequence[str], token: str = "", clock: Clock | None = None
) -> Starlette:
    """Return the web application.

    Args:
        roots: Paths or URLs that contain the runs.
        hosts: Names under which the server may be addressed; []: any.
        token: Secret that each request must carry; "": none.
        clock: Decides when a run is read again.
    """
    places = Places(roots)
    opened = OpenRuns(places, clock=clock)
    changes = Changes(places, on_change=opened.has_changed, clock=clock)

    def runs(request: Request) -> Response:
        rows = []
        for root in places.roots:
            rows += [{"key": root.key_of(row.place), **row.to_json()} for row in runs_in(root.store, root.place)]
        return json_answer(request, {"runs": rows, "roots": [root.place for root in places.roots]})

    def the_roots(request: Request) -> Response:
        return json_answer(request, {"roots": [root.place for root in places.roots]})

    def schema(request: Request) -> Response:
        return json_answer(request, schema_of(SHAPES))

    def jobs(request: Request) -> Response:
        reports = reports_of(reversed(JobsHome().all()[-_MOST_JOBS:]))
        return json_answer(request, [{**report.to_json(), "is_over": report.is_over} for report in reports])

    def about(question: Question) -> Any:
        def answer(request: Request) -> Response:
            keys = request.query_params.getlist("run")
            found = []
            for key in keys:
                with opened.run(key) as reader:
                    found.append(question(reader, request))
            return json_answer(request, found[0] if len(found) == 1 else found)
        return answer

    about_runs = [Route(f"/api/{name}", about(question)) for name, question in QUESTIONS.items()]
    routes = [Route("/api/runs", runs), Route("/api/jobs", jobs), Route("/api/roots", the_roots),
              Route("/api/schema", schema), *RunLists(places, clock).routes(), *charting_routes(opened), *about_runs,
              *saving_routes(), *change_routes(changes), *page_routes()]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Protection, hosts=hosts, token=token), Middleware(GZipMiddleware, minimum_size=1000)],
        exception_handlers={BarographError: _failed},
    )


async def _failed(request: Request, error: Exception) -> Response:
    return error_answer(request, error)
