"""JSON and file transfer with an HTTP server, with limits of time and size and without redirects."""

from __future__ import annotations

import base64
import http.client
import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

from barograph.errors import SettingsError
from barograph.version import __version__
from barograph.wire.connections import Sockets, opener_without_redirects

TOKEN, USER, PASSWORD = "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"

TIMEOUT_SECS = 60.0
"""Timeout of one JSON response, from the first byte to the last."""
_FILE_TIMEOUT_SECS = 600.0
_MOST_JSON_BYTES = 256 << 20
_PART_BYTES = 1 << 20
_SAID_CHARS = 300


class WebFailed(Exception):
    """A request failed; the message is a sentence without the name of the server.

    Attributes:
        status: HTTP status; 0 without a response.
        code: Error code in the response, such as MLflow's `error_code`; "" if none.
    """

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Web:
    """An HTTP server.

    Args:
        url: `http://HOST:PORT/PREFIX` without user and password.
        authorization: Authorization header; "": none.
        timeout_secs: See `TIMEOUT_SECS`.
    """

    def __init__(self, url: str, authorization: str = "", *, timeout_secs: float = TIMEOUT_SECS) -> None:
        self.url = url.rstrip("/")
        self._authorization = authorization
        self._timeout_secs = timeout_secs
        self._sockets = Sockets()
        self._opener = opener_without_redirects(self._sockets)

    def get(self, path: str, query: Mapping[str, str | int] | None = None) -> dict[str, Any]:
        """Return the JSON object at a path.

        Raises:
            WebFailed: There is none, or the server does not respond.
        """
        return self._json(self._request("GET", path, query))

    def post(self, path: str, body: Mapping[str, Any], *, method: str = "POST") -> dict[str, Any]:
        """Send a JSON object and return the response; raises as `get`."""
        request = self._request(method, path, None)
        # NaN and infinities are not JSON: callers write them as MLflow reads them.
        request.data = json.dumps(body, allow_nan=False).encode()
        request.add_header("Content-Type", "application/json")
        return self._json(request)

    def download(self, path: str, query: Mapping[str, str | int], target: Path, *, most_bytes: int) -> None:
        """Download a path into a file; raises as `get`, and if it has more than `most_bytes`."""
        taken = 0
        with self._answer(self._request("GET", path, query), _FILE_TIMEOUT_SECS) as answer, target.open("wb") as file:
            while part := answer.read(_PART_BYTES):
                taken += len(part)
                if taken > most_bytes:
                    raise WebFailed(f"it sent more than the announced {most_bytes:,} bytes")
                file.write(part)

    def upload(self, path: str, data: bytes) -> None:
        """Upload bytes to a path; raises as `get`."""
        request = self._request("PUT", path, None)
        request.data = data
        request.add_header("Content-Type", "application/octet-stream")
        with self._answer(request, _FILE_TIMEOUT_SECS) as answer:
            answer.read(_PART_BYTES)

    def _request(self, method: str, path: str, query: Mapping[str, str | int] | None) -> urllib.request.Request:
        asked = f"?{urlencode(query)}" if query else ""
        request = urllib.request.Request(f"{self.url}/{quote(path.lstrip('/'), safe='/:')}{asked}", method=method)
        request.add_header("User-Agent", f"barograph/{__version__}")
        if self._authorization:
            request.add_header("Authorization", self._authorization)
        return request

    def _json(self, request: urllib.request.Request) -> dict[str, Any]:
        with self._answer(request, self._timeout_secs) as answer:
            data = answer.read(_MOST_JSON_BYTES + 1)
        if len(data) > _MOST_JSON_BYTES:
            raise WebFailed(f"its response has more than {_MOST_JSON_BYTES:,} bytes")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise WebFailed(f"its response is not JSON: {data[:60]!r}") from error
        if not isinstance(found, dict):
            raise WebFailed(f"its response is not a JSON object: {data[:60]!r}")
        return found

    @contextmanager
    def _answer(self, request: urllib.request.Request, timeout_secs: float) -> Iterator[http.client.HTTPResponse]:
        late = threading.Event()

        def cut() -> None:
            late.set()
            self._sockets.cut()

        # The timeout of a socket restarts with each byte: a server that sends one now and then would block forever.
        watch = threading.Timer(timeout_secs, cut)
        watch.daemon = True
        watch.start()
        try:
            with self._opener.open(request, timeout=timeout_secs) as answer:
                yield answer
            if late.is_set():
                raise TimeoutError
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if late.is_set() or isinstance(reason, TimeoutError):
                raise WebFailed(f"it did not respond within {timeout_secs:g} s") from None
            if isinstance(error, ValueError):
                raise WebFailed(f"its address is invalid: {error}") from None
            said = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
            raise WebFailed(f"it cannot be reached: {said or type(reason).__name__}") from None
        finally:
            watch.cancel()
            self._sockets.forget()


def web_from_environment(url: str, environment: Mapping[str, str] = os.environ) -> Web:
    """Return the server at a URL, with credentials from the URL or the environment.

    Args:
        url: `http://HOST:PORT/PREFIX`; a user and a password in it take precedence over the environment.
        environment: `MLFLOW_TRACKING_TOKEN`, or `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`.

    Raises:
        SettingsError: The URL is not valid.

    Example:
        >>> web_from_environment("http://ann:secret@host:5000/").url
        'http://host:5000'
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        # An invalid URL may contain a password anywhere, and so may the reason.
        raise SettingsError("Not a URL of a server. Write http://HOST:PORT. Escape a user and a password in it: / is "
                            "%2F, : is %3A, @ is %40, # is %23, ? is %3F.") from None
    plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user:
        user, password = environment.get(USER, ""), environment.get(PASSWORD, "")
    if user:
        return Web(plain, f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}")
    token = environment.get(TOKEN, "").strip()
    return Web(plain, f"Bearer {token}" if token else "")


def _refused(error: urllib.error.HTTPError) -> WebFailed:
    phrase = http.client.responses.get(error.code, "")
    if 300 <= error.code < 400:
        return WebFailed(f"it responded {error.code} {phrase}. Redirects are not followed: pass the URL of the "
                         "target", error.code)
    code = said = ""
    try:
        answer = json.loads(error.read(_PART_BYTES))
        code, said = str(answer.get("error_code", "")), str(answer.get("message", ""))
    except (ValueError, AttributeError, OSError, http.client.HTTPException, RecursionError):
        said = ""  # the status is enough
    if error.code in (401, 403):
        said = f"{said} Set {TOKEN}, or {USER} and {PASSWORD}.".strip()
    return WebFailed(f"it answered {error.code} {phrase}{f': {said[:_SAID_CHARS]}' if said else ''}".rstrip("."),
                     error.code, code)
