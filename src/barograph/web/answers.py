"""JSON responses with an ETag: a page downloads a body only if it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import (
    AmbiguousName,
    BadSpace,
    BarographError,
    CatalogUnavailable,
    DamagedChunk,
    EditConflict,
    NameTaken,
    NewerCatalog,
    NewerFormat,
    NotARun,
    ObjectNotFound,
    SearchError,
    SettingsError,
    StillNeeded,
    StoreDenied,
    StoreUnavailable,
    UnknownItem,
    UnknownJob,
    UnknownKey,
    UnknownName,
    UnknownStep,
    UnknownStudy,
    UnknownWorker,
)
from barograph.model.plain import plain

_STATUS: tuple[tuple[type[BarographError], int], ...] = (
    (NotARun, 404), (UnknownKey, 404), (UnknownStep, 404), (UnknownWorker, 404), (UnknownName, 404),
    (UnknownStudy, 404), (BadSpace, 400),
    (StoreDenied, 403), (StoreUnavailable, 503), (NewerFormat, 501), (DamagedChunk, 500), (SettingsError, 400),
    (SearchError, 400), (UnknownItem, 404), (ObjectNotFound, 404), (UnknownJob, 404), (NameTaken, 409),
    (StillNeeded, 409), (EditConflict, 409), (AmbiguousName, 409), (CatalogUnavailable, 503), (NewerCatalog, 501),
)


def cell(value: object) -> Any:
    """Return JSON data of a value that may be missing: null where it is, "NaN" for NaN."""
    return "NaN" if value != value else plain(value)


def encoded(data: Any) -> bytes:
    """Return data as strict JSON; NaN becomes null."""
    try:
        return orjson.dumps(data)
    except TypeError:
        # It does not take lone surrogates, as in names of files, nor integers of more than 64 bits.
        text = json.dumps(plain(data), allow_nan=False, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-8", "replace")


def json_answer(request: Request, data: Any) -> Response:
    """Return data as a JSON response; 304 without a body if the client has it already."""
    return encoded_answer(request, encoded(data))


def encoded_answer(request: Request, body: bytes) -> Response:
    """Return encoded JSON as a response; 304 without a body if the client has it already."""
    version = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"etag": version, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == version:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def error_answer(request: Request, error: Exception) -> Response:
    """Return an error of Barograph as a JSON response."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    response = json_answer(request, {"error": str(error), "type": type(error).__name__})
    response.status_code = status if response.status_code == 200 else response.status_code
    return response


def number_in(request: Request, name: str, default: int | None = None) -> int | None:
    """Return a number of the query string.

    Raises:
        SettingsError: It is not a number.
    """
    text = request.query_params.get(name)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"{name} is {text[:50]!r}; expected an integer.") from None


Answer = Callable[[Request], Any]
"""Computes the data of an answer, in a thread of its own."""
