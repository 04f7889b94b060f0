"""Middleware against DNS rebinding, cross-site requests and unauthorized access."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request, cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from barograph.web.tokens import ANYBODY, Token, Tokens

POLICY = ("default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
          "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
LOGIN = "/login"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_COOKIE_SECS = 7 * 24 * 3600
_VISITOR = "barograph.visitor"


class Protection:
    """Checks `Host`, `Origin` and token of a request, and adds security headers.

    A page on another web site can make a browser send requests to a server on this machine. It cannot choose the
    `Host` header (but its own name may lead here: DNS rebinding) nor `Origin`. It cannot send JSON without asking.

    The files of the page hold no data, so they need no token; the page asks for it.

    Args:
        app: The protected application.
        hosts: Allowed values of the `Host` header; empty: any.
        tokens: Secrets, one of which is needed in `Authorization: Bearer`, in the cookie, or once as `?token=`, which
            sets the cookie and leaves the address.
        open_paths: Paths that need no token.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], tokens: Tokens, open_paths: Collection[str] = ()) -> None:
        self._app, self._hosts, self._tokens = app, frozenset(hosts), tokens
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refused(scope, headers)
        if refused is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await WebSocketClose(code=1008)(scope, receive, send)
        else:
            await refused(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self._hosts and _name(host) not in self._hosts:
            return _answer(403, f"The host {host[:100]!r} is not allowed. Open the link that the server printed.")
        asks_only = scope["type"] == "http" and scope["method"] in _SAFE
        if not asks_only and not _is_from_here(headers, host):
            return _answer(403, "The request comes from another web site.")
        if not asks_only and scope["type"] == "http" and not _is_json(headers):
            return _answer(415, "Send JSON with the content type application/json.")
        path = scope["path"]
        if self._tokens and asks_only and path == "/":
            asked = QueryParams(scope["query_string"]).get("token")
            if asked is not None:
                # Away from the address, where it would stay in the history.
                redirect = RedirectResponse("./", status_code=303)
                if self._tokens.of(asked) is not None:
                    set_cookie(redirect, self._tokens, asked, secure=_is_encrypted(scope, headers))
                return redirect
        if scope["type"] == "http" and path in self._open_paths:
            return None
        cookie = cookie_parser(headers.get("cookie", "")).get(self._tokens.cookie, "")
        visitor = self._tokens.of(headers.get("authorization", "").removeprefix("Bearer ") or cookie)
        if visitor is None:
            return _answer(401, "This server needs a token. Open the link that `barograph studio` printed, or type "
                                "the token.", {"www-authenticate": "Bearer"})
        if not asks_only and not visitor.may_write:
            return _answer(403, "This token is read-only. Editing needs a writer token.")
        scope[_VISITOR] = visitor
        return None


def visitor_of(request: Request) -> Token:
    """Return the token of a request."""
    visitor = request.scope.get(_VISITOR, ANYBODY)
    assert isinstance(visitor, Token)
    return visitor


def login(request: Request, tokens: Tokens, secret: str) -> Response:
    """Return the response to a typed token: its cookie, or an error."""
    token = tokens.of(secret)
    if token is None:
        return _answer(401, "Wrong token.")
    response = Response(status_code=204)
    set_cookie(response, tokens, secret, secure=_is_encrypted(request.scope, request.headers))
    return response


def set_cookie(response: Response, tokens: Tokens, secret: str, *, secure: bool) -> None:
    """Set the cookie of a token."""
    # Without a path, it is for the folder of the request: below a proxy, other servers do not get it.
    response.set_cookie(tokens.cookie, secret, path=None, httponly=True, samesite="strict", max_age=_COOKIE_SECS,
                        secure=secure)


def secured(response: Response) -> Response:
    """Return a response that `Protection` does not see, with the same security headers."""
    _secure(response.headers)
    return response


def _is_from_here(headers: Headers, host: str) -> bool:
    site = headers.get("sec-fetch-site")
    if site is not None:
        # The browser decides this, and knows the address that a proxy hides from us.
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] in (host, headers.get("x-forwarded-host"))


def _is_json(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _is_encrypted(scope: Scope, headers: Headers) -> bool:
    return scope.get("scheme") == "https" or headers.get("x-forwarded-proto", "") == "https"


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps({"error": text}), status, headers, "application/json")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            _secure(MutableHeaders(scope=message))
        await send(message)

    return sending


def _secure(headers: MutableHeaders) -> None:
    headers.setdefault("content-security-policy", POLICY)
    headers["x-content-type-options"] = "nosniff"
    headers["referrer-policy"] = "no-referrer"
    headers["cross-origin-resource-policy"] = "same-origin"


def _name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
