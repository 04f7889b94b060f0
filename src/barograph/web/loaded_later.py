"""Routes whose modules are imported for the first request to one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send


class LoadedLater:
    """An application with routes that are made on the first request to one of them. Thread-safe.

    If they cannot be made, that request fails, and the next one tries again.

    Args:
        make: Imports and returns the routes.
    """

    def __init__(self, make: Callable[[], Sequence[BaseRoute]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._router: Router | None = None
        self._paths: frozenset[str] = frozenset()

    def __contains__(self, path: object) -> bool:
        """Return whether a route has this path; False until they are loaded."""
        return path in self._paths

    @property
    def is_loaded(self) -> bool:
        """Whether the routes are there."""
        return self._router is not None

    def _load(self) -> Router:
        with self._lock:
            if self._router is None:
                routes = self._make()
                self._paths = frozenset(route.path for route in routes if isinstance(route, Route))
                self._router = Router(routes)
            return self._router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        router = self._router
        if router is None:
            try:
                router = await run_in_threadpool(self._load)  # meanwhile, others are answered
            except Exception:
                if scope["type"] != "websocket":
                    raise
                await send({"type": "websocket.close", "code": 1011})  # the page asks again, without it
                return
        await router(scope, receive, send)
