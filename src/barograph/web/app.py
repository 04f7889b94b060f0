"""The web application: its routes and its access control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from barograph.errors import BarographError
from barograph.model.clock import Clock
from barograph.tune.study import Study
from barograph.web import inside
from barograph.web.answers import error_answer, json_answer
from barograph.web.catalogs import Catalogs
from barograph.web.changes import Changes, change_routes
from barograph.web.charting import charting_routes
from barograph.web.comparing import comparing_routes
from barograph.web.edits import edit_routes
from barograph.web.files import file_routes
from barograph.web.grouping import grouping_routes
from barograph.web.jobs import job_routes
from barograph.web.lineage import lineage_routes
from barograph.web.metrics import Counting, Metrics
from barograph.web.open_studies import OpenStudies
from barograph.web.opened import OpenRuns
from barograph.web.page_files import page_routes
from barograph.web.places import Places
from barograph.web.posting import post, text_in
from barograph.web.protection import LOGIN, Protection, login
from barograph.web.questions import QUESTIONS, Question
from barograph.web.saving import saving_routes
from barograph.web.schema import schema_of
from barograph.web.searching import RunLists
from barograph.web.shapes import SHAPES
from barograph.web.studies import study_routes
from barograph.web.tokens import Token, Tokens

_GZIP_LEVEL = 4
"""The highest level, 9, takes three times as long, for answers that are 1% shorter."""


def application(
    roots: Sequence[str], *, hosts: Sequence[str], tokens: Sequence[Token] = (), clock: Clock | None = None,
    studies: Mapping[str, Study] | None = None,
) -> Starlette:
    """Return the web application.

    Args:
        roots: Paths or URLs that contain the runs.
        hosts: Allowed values of the `Host` header; []: any.
        tokens: Each request needs one of these tokens; none: everybody may read and edit.
        clock: Decides when a run is read again.
        studies: Studies of this process, by key.
    """
    places = Places(roots)
    opened = OpenRuns(places, clock=clock)
    changes = Changes(places, on_change=opened.has_changed, clock=clock)
    catalogs, secrets = Catalogs(places, clock), Tokens(tokens)
    metrics = Metrics(places, catalogs)

    def the_roots(request: Request) -> Response:
        return json_answer(request, {"roots": [root.place for root in places.roots]})

    def schema(request: Request) -> Response:
        return json_answer(request, schema_of(SHAPES))

    def about(question: Question) -> Any:
        def answer(request: Request) -> Response:
            keys = request.query_params.getlist("run")
            found = []
            for key in keys:
                with opened.run(key) as reader:
                    found.append(question(reader, request))
            return json_answer(request, found[0] if len(found) == 1 else found)
        return answer

    about_runs = [Route(f"/api/{name}", about(question))
                  for name, question in {**QUESTIONS, **inside.QUESTIONS}.items()]
    page = page_routes()
    routes = [Route("/api/roots", the_roots),
              Route("/health", lambda _: PlainTextResponse("barograph studio\n")),
              *RunLists(places, catalogs, clock).routes(),
              *charting_routes(opened),
              *grouping_routes(opened, catalogs),
              *edit_routes(places, catalogs, clock),
              *file_routes(places, catalogs),
              *lineage_routes(places, catalogs),
              *job_routes(places),
              *study_routes(OpenStudies(places, studies)),
              metrics.route(),
              *comparing_routes(opened, catalogs),
              Route("/api/schema", schema),
              *saving_routes(),
              *change_routes(changes),
              *about_runs, inside.latent_route(opened), *page,
              post(LOGIN, lambda request, data: login(request, secrets, text_in(data, "token")))]
    paths = [route.path for route in routes if isinstance(route, Route)]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Counting, metrics=metrics, routes=paths),
                    Middleware(Protection, hosts=hosts, tokens=secrets,
                               open_paths=[*(route.path for route in page), LOGIN, "/health"]),
                    Middleware(GZipMiddleware, minimum_size=1000, compresslevel=_GZIP_LEVEL)],
        exception_handlers={BarographError: _failed},
    )


async def _failed(request: Request, error: Exception) -> Response:
    return error_answer(request, error)
