"""The web application: its routes and its access control."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from barograph.errors import BarographError
from barograph.model.clock import Clock
from barograph.web.answers import error_answer, json_answer
from barograph.web.catalogs import Catalogs
from barograph.web.in_flight import InFlight
from barograph.web.loaded_later import LoadedLater
from barograph.web.metrics import Counting, Metrics
from barograph.web.page_files import page_routes
from barograph.web.places import Places
from barograph.web.posting import post, text_in
from barograph.web.protection import LOGIN, Protection, login, secured
from barograph.web.searching import RunLists
from barograph.web.tokens import Token, Tokens

if TYPE_CHECKING:
    from barograph.tune.study import Study

_GZIP_LEVEL = 4
"""The highest level, 9, takes three times as long, for answers that are 1% shorter."""


class Application(Starlette):
    """The web application. Only the routes of lists of runs are there from the start.

    Args:
        others: All other routes.
        options: As for Starlette.
    """

    def __init__(self, others: LoadedLater, **options: Any) -> None:
        super().__init__(**options)
        self.router.default = others
        self._others = others

    @property
    def is_complete(self) -> bool:
        """Whether the other routes are loaded too."""
        return self._others.is_loaded


def application(
    roots: Sequence[str], *, hosts: Sequence[str], tokens: Sequence[Token] = (), clock: Clock | None = None,
    studies: Mapping[str, Study] | None = None, before_records: Callable[[], object] = lambda: None,
) -> Application:
    """Return the web application.

    Args:
        roots: Paths or URLs that contain the runs.
        hosts: Allowed values of the `Host` header; []: any.
        tokens: Each request needs one of these tokens; none: everybody may read and edit.
        clock: Decides when a run is read again.
        studies: Studies of this process, by key.
        before_records: Called before records of runs are read, and what reads them is imported; from several threads.
    """
    places = Places(roots)
    in_flight, secrets = InFlight(clock), Tokens(tokens)
    catalogs = Catalogs(places, clock, in_flight=in_flight, before_records=before_records)
    metrics = Metrics(places, catalogs)

    def the_roots(request: Request) -> Response:
        return json_answer(request, {"roots": [root.place for root in places.roots]})

    def others() -> Sequence[BaseRoute]:
        before_records()
        # Here, because it imports everything that reads runs, and the list of runs is shown before.
        from barograph.web.other_routes import other_routes

        return other_routes(places, catalogs, clock=clock, studies=studies)

    page = page_routes()
    routes = [Route("/api/roots", the_roots),
              Route("/health", lambda _: PlainTextResponse("barograph studio\n")),
              *RunLists(places, catalogs, clock).routes(),
              metrics.route(), *page,
              post(LOGIN, lambda request, data: login(request, secrets, text_in(data, "token")))]
    paths, later = {route.path for route in routes if isinstance(route, Route)}, LoadedLater(others)
    return Application(
        later, routes=routes,
        middleware=[Middleware(Counting, metrics=metrics, in_flight=in_flight,
                               is_route=lambda path: path in paths or path in later),
                    Middleware(Protection, hosts=hosts, tokens=secrets,
                               open_paths=[*(route.path for route in page), LOGIN, "/health"]),
                    Middleware(GZipMiddleware, minimum_size=1000, compresslevel=_GZIP_LEVEL)],
        exception_handlers={BarographError: _failed, Exception: _broken},
    )


async def _failed(request: Request, error: Exception) -> Response:
    return error_answer(request, error)


async def _broken(request: Request, error: Exception) -> Response:
    """Return an error that is not Barograph's, such as that of a module whose file has changed, as JSON, too.

    Without its message, which may hold a secret, such as that of a URL. The middleware does not see this response.
    """
    module = f" ({error.name})" if isinstance(error, ImportError) and error.name else ""
    return secured(error_answer(request, BarographError(
        f"The studio could not answer: {type(error).__name__}{module}. Its output has the details. If packages were "
        "installed or upgraded while it was running, restart it.")))
