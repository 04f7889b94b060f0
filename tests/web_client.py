"""A client that calls a web application without a network, and small runs on disk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from barograph.store.urls import store_from_url
from diary import Diary


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    def __init__(self, app: Any) -> None:
        self.app = app
        self.logged: list[Exception] = []

    def post(self, url: str, data: Any, headers: Mapping[str, str] | None = None) -> Answer:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        return self.get(url, {"content-type": "application/json", **(headers or {})}, method="POST", body=body)

    def get(
        self, url: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", body: bytes = b""
    ) -> Answer:
        parts = urlsplit(url)
        sent: list[dict[str, Any]] = []
        asked = {"host": "127.0.0.1:8642", **(headers or {})}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(parts.path), "raw_path": parts.path.encode(), "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in asked.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8642),
        }

        asked_for = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in asked_for:
                return message
            await asyncio.Event().wait()  # the client stays
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        try:
            asyncio.run(self.app(scope, receive, send))
        except Exception as error:
            if not sent:
                raise
            self.logged.append(error)  # by uvicorn, after the response
        start = next(message for message in sent if message["type"] == "http.response.start")
        whole = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        return Answer(start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, whole)


def recorded(place: Path, losses: list[float]) -> Diary:
    place.parent.mkdir(parents=True, exist_ok=True)
    diary = Diary(place.name, store_from_url(str(place)))
    diary.manifest = replace(diary.manifest, run_id=f"{diary.manifest.run_id}-{place.name}")
    for number, loss in enumerate(losses):
        diary.step(number, {"loss:total": loss}, {"gradient:fc.weight": [loss, 0.0], "output:fc": [0.0, 0.0]})
    diary.ended()
    return diary
