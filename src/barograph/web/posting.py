"""Routes that take JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barograph.errors import SettingsError

_MOST_BYTES = 1_000_000

Posted = Callable[[Request, Mapping[str, Any]], Response]
"""Answers a request with the JSON object that it carried, in a thread of its own."""


def post(path: str, answer: Posted) -> Route:
    """Return a route that answers POST requests with a JSON object."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, request, await _object(request))

    return Route(path, endpoint, methods=["POST"])


def text_in(data: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a string of a JSON object.

    Raises:
        SettingsError: It is missing or not a string.
    """
    value = data.get(name, default)
    if not isinstance(value, str):
        raise SettingsError(f"{name} must be a string.")
    return value


async def _object(request: Request) -> Mapping[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise SettingsError(f"The request has more than {_MOST_BYTES:,} bytes.")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise SettingsError("The request is no JSON.") from None
    if not isinstance(data, dict):
        raise SettingsError("The request must be a JSON object.")
    return data
