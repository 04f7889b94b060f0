"""Keeps other web sites out: who is addressed, where a request comes from, and what a page may load."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

POLICY = ("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
          "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_COOKIE = "barograph-token"
_COOKIE_SECS = 7 * 24 * 3600


class Protection:
    """Refuses foreign hosts and origins, asks for a token where one is needed, and adds security headers.

    A page on another web site can make a browser send requests to a server on this machine. It cannot choose the
    `Host` header (but its own name may lead here: DNS rebinding) nor `Origin`.

    Args:
        app: What is protected.
        hosts: Names under which the server may be addressed; empty: any.
        token: Secret that is needed in `Authorization: Bearer`, in the cookie, or once as `?token=`, which sets the
            cookie and leaves the address; "": none.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], token: str = "") -> None:
        self._app, self._hosts, self._token = app, frozenset(hosts), token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            if scope["type"] == "websocket":
                await WebSocketClose(code=1008)(scope, receive, send)
            else:
                await refused(scope, receive, _with_headers(send))
            return
        await self._app(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self._hosts and _name(host) not in self._hosts:
            return _answer(f"This server does not answer to {host[:100]!r}.")
        origin = headers.get("origin")
        asks_only = scope["type"] == "http" and scope["method"] in _SAFE
        if origin is not None and not asks_only and origin.partition("://")[2] != host:
            return _answer("This request comes from another web site.")
        if not self._token:
            return None
        if scope["type"] == "http" and scope["method"] == "GET":
            asked = QueryParams(scope["query_string"]).get("token")
            if asked is not None and self._is_token(asked):
                # Away from the address, where it would stay in the history.
                response = RedirectResponse("./", status_code=303)
                response.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict", max_age=_COOKIE_SECS)
                return response
        cookie = cookie_parser(headers.get("cookie", "")).get(_COOKIE, "")
        given = headers.get("authorization", "").removeprefix("Bearer ") or cookie
        return None if self._is_token(given) else _answer("Open the link that `barograph studio` printed.")

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self._token.encode())


def _answer(text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status_code=403)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = MutableHeaders(scope=message)
            added["content-security-policy"] = POLICY
            added["x-content-type-options"] = "nosniff"
            added["referrer-policy"] = "no-referrer"
            added["cross-origin-resource-policy"] = "same-origin"
        await send(message)

    return sending


def _name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
