"""Serves the page at once, and loads the rest of the application in a thread, because its imports take long."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send

from barograph.web.page_files import page_routes
from barograph.web.protection import Protection
from barograph.web.tokens import Token, Tokens

if TYPE_CHECKING:
    from barograph.web.app import Application


class Starting:
    """An application that serves its page at once, and the rest once it is loaded.

    Args:
        load: Imports and returns the whole application. Called once, in a thread.
        on_failure: Called in that thread if `load` fails; the error is raised by `check`.
        hosts, tokens: As for the whole application.
    """

    def __init__(
        self, load: Callable[[], Application], *, on_failure: Callable[[], object], hosts: Sequence[str],
        tokens: Sequence[Token] = (),
    ) -> None:
        page = page_routes()
        self._paths = frozenset(route.path for route in page)
        self._page = Starlette(routes=page, middleware=[
            Middleware(Protection, hosts=hosts, tokens=Tokens(tokens), open_paths=self._paths),
            Middleware(GZipMiddleware, minimum_size=1000)])
        self._load, self._on_failure = load, on_failure
        self._whole: Future[Application] = Future()
        self._begun = threading.Lock()
        self._asked = False
        self._is_complete = False

    def begin(self) -> None:
        """Start loading the whole application, once."""
        if self._begun.acquire(blocking=False):
            # A daemon, so that Ctrl-C does not wait for it.
            threading.Thread(target=self._finish, daemon=True, name="barograph-studio-load").start()

    def check(self) -> None:
        """Raise the error of a failed load."""
        error = self._whole.exception() if self._whole.done() else None
        if error is not None:
            raise error

    def tidy(self) -> None:
        """Release freed memory if there were requests since the last call."""
        if self._asked and self._whole.done():
            from barograph.runs.reading.freed_memory import release_freed_memory

            self._asked = False
            if not self._is_complete and self._whole.result().is_complete:
                _pass_over_what_is_imported()
                self._is_complete = True
            release_freed_memory()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "lifespan" or (scope["type"] == "http" and scope["path"] in self._paths)
        if is_page and not self._whole.done():
            await self._page(scope, receive, send)
            return
        self.begin()
        # Shielded, because all requests wait for the same future.
        whole = await asyncio.shield(asyncio.wrap_future(self._whole))
        self._asked = True
        await whole(scope, receive, send)

    def _finish(self) -> None:
        try:
            whole = self._load()
            _pass_over_what_is_imported()
        except BaseException as error:  # noqa: BLE001 - raised by `check`, in the thread of the server
            self._whole.set_exception(error)
            self._on_failure()
        else:
            self._whole.set_result(whole)


def _pass_over_what_is_imported() -> None:
    """Leave everything that is there out of later garbage collections, which would mostly go through modules."""
    gc.collect()
    gc.freeze()
