"""Notifies pages that runs and studies changed. The pages then request the data, so a lost message only delays them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from barograph.errors import BarographError
from barograph.model.clock import Clock, SystemClock
from barograph.runs.format.layout import ATTEMPTS, ENDINGS, FINDINGS, OUTPUT, RECORDS, WORKERS
from barograph.store.base import Store
from barograph.tune.live_values import LIVE
from barograph.tune.study_events import EVENTS, event_name, has_event, identity_of
from barograph.web.answers import json_answer
from barograph.web.open_studies import OpenStudies
from barograph.web.places import Places

_FOLDERS = (RECORDS, FINDINGS, ENDINGS, WORKERS, ATTEMPTS, OUTPUT)
"""Heartbeats are left out: they change all the time, and what they say of steps comes with the records."""

STUDY = "study/"
"""Prefix of the key of a study."""
_EVERY_SECS = 0.15
_EVERY_SECS_AFAR = 2.0
_MOST_RUNS = 50


class Changes:
    """Cursors of runs and studies: strings that change when something is published.

    Args:
        places: Where runs and studies are.
        on_change: Called with the key of a run that changed since the last request.
        clock: Clock for the intervals between checks.
    """

    def __init__(
        self, places: Places, *, on_change: Callable[[str], object] = lambda key: None, clock: Clock | None = None
    ) -> None:
        self._places, self._studies = places, OpenStudies(places)
        self._on_change = on_change
        self._clock = clock or SystemClock()
        self._known: dict[str, tuple[float, str]] = {}
        self._events: dict[str, tuple[str, int]] = {}

    def every_secs(self, key: str) -> float:
        """Return how long a cursor is cached: a bucket is polled less often than a directory.

        Raises:
            UnknownName: The key is not below a root.
        """
        return _EVERY_SECS_AFAR if "://" in self._place_of(key) else _EVERY_SECS

    def cursor(self, key: str) -> str:
        """Return the cursor of a run or study. It is derived from its files alone, so it outlives the server.

        Raises:
            UnknownName, UnknownStudy, NotARun, StoreError: It cannot be read.
        """
        now = self._clock.monotonic()
        known = self._known.get(key)
        if known is not None and now - known[0] < self.every_secs(key):
            return known[1]
        cursor = self._study_cursor(key) if key.startswith(STUDY) else _digest(self._places.store_of(key), _FOLDERS)
        if known is not None and known[1] != cursor:
            self._on_change(key)
        self._known[key] = (now, cursor)
        return cursor

    def _place_of(self, key: str) -> str:
        return self._studies.place_of(key[len(STUDY):]) if key.startswith(STUDY) else self._places.place_of(key)

    def _study_cursor(self, key: str) -> str:
        """Return which study it is, how many events it has, and a digest of its latest values."""
        store = self._studies.store_of(key[len(STUDY):])
        identity = hashlib.blake2b(identity_of(store), digest_size=6).hexdigest()
        known, count = self._events.get(key, ("", 0))
        if known != identity:  # later, a listing would cost more with each event
            count = sum(1 for _ in store.list(EVENTS))
        while has_event(store, event_name(count)):
            count += 1
        self._events[key] = identity, count
        return f"{identity}-{count}-{_digest(store, (LIVE,))}"

    def cursors(self, after: Mapping[str, str]) -> dict[str, str]:
        """Return the cursors that differ from those in `after`; "" for a run that cannot be read."""
        found = {}
        for key, before in after.items():
            try:
                cursor = self.cursor(key)
            except BarographError:
                cursor = ""
            if cursor != before:
                found[key] = cursor
        return found


def _digest(store: Store, folders: Sequence[str]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for folder in folders:
        for item in store.list(folder):
            digest.update(f"{item.name} {item.size_bytes} {item.modified_unix} {item.version}\n".encode())
    return digest.hexdigest()


def change_routes(changes: Changes) -> list[BaseRoute]:
    """Return `GET changes?run=KEY&after=CURSOR`, and the WebSocket that notifies pages."""

    def answer(request: Request) -> Response:
        asked = request.query_params
        keys, after = asked.getlist("run"), asked.getlist("after")
        return json_answer(request, changes.cursors(dict(zip(keys, [*after, *[""] * len(keys)], strict=False))))

    async def announce(socket: WebSocket) -> None:
        await socket.accept()
        wanted: dict[str, str] = {}
        hearing = asyncio.ensure_future(_hear(socket, wanted))
        try:
            while not hearing.done():
                changed = await run_in_threadpool(changes.cursors, dict(wanted))
                changed = {key: cursor for key, cursor in changed.items() if key in wanted}
                if changed:
                    wanted.update(changed)
                    await socket.send_json(changed)
                await asyncio.wait([hearing], timeout=_EVERY_SECS)
        except (WebSocketDisconnect, RuntimeError):
            pass  # the page is gone
        finally:
            hearing.cancel()

    return [Route("/api/changes", answer), WebSocketRoute("/api/changes", announce)]


async def _hear(socket: WebSocket, wanted: dict[str, str]) -> None:
    """Take the keys of the runs that a page shows, as a list, until it is gone."""
    while True:
        try:
            message: Any = await socket.receive_json()
        except (WebSocketDisconnect, ValueError, KeyError):
            return
        keys = [key for key in message if isinstance(key, str)][:_MOST_RUNS] if isinstance(message, list) else []
        # A new run is announced at once: it may have changed since the page asked.
        known = {key: wanted.get(key, "?") for key in keys}
        wanted.clear()
        wanted.update(known)
