"""Requests to the web application without a server, for notebooks and saved files."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Message


@dataclass(frozen=True, slots=True)
class Reply:
    """Response to a GET request.

    Attributes:
        status: HTTP status; 304 if the version is unchanged.
        version: ETag; "" for none.
        text: Body.
    """

    status: int
    version: str
    text: str


def get_inside(app: ASGIApp, url: str, version: str = "") -> Reply:
    """Return the response of an application to a GET request.

    Args:
        app: The application.
        url: Path below it and query, such as "api/run?run=0".
        version: ETag that the page already has; "" for none.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_answer(app, url, version))
    # A notebook runs its loop in the thread that asks.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _answer(app, url, version)).result()


async def _answer(app: ASGIApp, url: str, version: str) -> Reply:
    parts = urlsplit(url)
    headers = [(b"host", b"localhost"), *([(b"if-none-match", version.encode())] if version else [])]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": f"/{unquote(parts.path)}", "raw_path": f"/{parts.path}".encode(), "root_path": "", "headers": headers,
        "query_string": parts.query.encode(), "client": None, "server": None,
    }
    sent: list[Message] = []
    asked = False

    async def receive() -> Message:
        nonlocal asked
        if asked:
            await asyncio.Event().wait()  # whoever asks stays until the answer
        asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    given = {name: value for message in sent for name, value in message.get("headers", ())}
    return Reply(next(message["status"] for message in sent if "status" in message),
                 given.get(b"etag", b"").decode(), b"".join(message.get("body", b"") for message in sent).decode())
