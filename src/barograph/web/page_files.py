"""Serves the built page."""

from __future__ import annotations

import gzip
import mimetypes
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from barograph.web.page_digest import BUILT, DIGEST

MISSING = ("The page was not built when barograph was installed. That needs Node.js 20 or later, or access to PyPI "
            "and npm. Install it again where these are.\n")
"""Why there is no page."""


def page_routes() -> list[Route]:
    """Return the routes of the page and its files."""
    files = {path.relative_to(BUILT).as_posix(): path for path in BUILT.rglob("*")
             if path.is_file() and path.name != DIGEST}
    routes = [Route(f"/{name}", _file(path)) for name, path in files.items()]
    index = files.get("index.html")
    return [*routes, Route("/", _file(index) if index else _missing)]


def _file(path: Path) -> Callable[[Request], Response]:
    # Names of scripts and styles contain a digest of their content.
    is_named_by_content = path.parent.name == "assets"
    headers = {"cache-control": "public, max-age=31536000, immutable" if is_named_by_content else "no-cache"}

    def answer(request: Request) -> Response:
        if not is_named_by_content or "gzip" not in request.headers.get("accept-encoding", ""):
            return FileResponse(path, headers=headers)
        media_type = mimetypes.guess_type(path.name)[0]
        return Response(_compressed(path), media_type=media_type, headers={
            **headers, "content-encoding": "gzip", "vary": "Accept-Encoding"})

    return answer


@lru_cache(maxsize=16)
def _compressed(path: Path) -> bytes:
    """Return the compressed content of a file, which takes longer than everything else about the first page."""
    return gzip.compress(path.read_bytes(), mtime=0)


def _missing(request: Request) -> Response:
    return PlainTextResponse(MISSING, status_code=503)
