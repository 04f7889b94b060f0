"""Metrics of the server and of its runs, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from barograph.errors import CatalogError, StoreError
from barograph.experiments.labels import counts_of_runs
from barograph.web.catalogs import Catalogs
from barograph.web.in_flight import InFlight
from barograph.web.places import Places

_SECS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class Metrics:
    """Counts requests, and the runs of the catalogs on each scrape.

    Args:
        places: The served roots.
        catalogs: Their catalogs.
        clock: Clock for the duration of requests.
    """

    def __init__(self, places: Places, catalogs: Catalogs, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Runs(places, catalogs))
        self._clock = clock
        self._count = Counter("barograph_requests", "Requests.", ["route", "status"], registry=self._registry)
        self._secs = Histogram("barograph_request_seconds", "Seconds until a request was answered.", ["route"],
                               buckets=_SECS, registry=self._registry)

    def route(self) -> BaseRoute:
        """Return the route of the metrics."""

        def metrics(request: Request) -> Response:
            return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})

        return Route("/metrics", metrics)

    def answered(self, route: str, status: int, secs: float) -> None:
        """Count a request."""
        self._count.labels(route, str(status)).inc()
        self._secs.labels(route).observe(secs)

    def now(self) -> float:
        """Return the current time."""
        return self._clock()


class Counting:
    """Middleware that counts requests.

    Args:
        app: The application.
        metrics: Where they are counted.
        in_flight: Where they are counted as long as they last.
        is_route: Returns whether a path is counted separately; all others are counted as one.
    """

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, in_flight: InFlight, is_route: Callable[[str], bool]
    ) -> None:
        self._app, self._metrics, self._in_flight, self._is_route = app, metrics, in_flight, is_route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = self._metrics.now(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self._in_flight.one():
                await self._app(scope, receive, sending)
        finally:
            # A label for each path that somebody invents would fill the memory.
            route = scope["path"] if self._is_route(scope["path"]) else "other"
            self._metrics.answered(route, status, self._metrics.now() - began)


class _Runs(Collector):
    def __init__(self, places: Places, catalogs: Catalogs) -> None:
        self._places, self._catalogs = places, catalogs

    def collect(self) -> Iterator[GaugeMetricFamily]:
        runs = GaugeMetricFamily("barograph_runs", "Runs, without archived and deleted ones.", labels=["root", "state"])
        findings = GaugeMetricFamily("barograph_open_findings", "Open findings of these runs.",
                                     labels=["root", "severity"])
        readable = GaugeMetricFamily("barograph_root_readable", "1 if the root and its catalog can be read.",
                                     labels=["root"])
        for root in self._places.roots:
            try:
                by_state, by_severity = counts_of_runs(self._catalogs.at(root.number))
            except (CatalogError, StoreError):
                readable.add_metric([root.place], 0)
                continue
            readable.add_metric([root.place], 1)
            for state, count in by_state.items():
                runs.add_metric([root.place, state], count)
            for severity, count in by_severity.items():
                findings.add_metric([root.place, severity], count)
        yield from (runs, findings, readable)
