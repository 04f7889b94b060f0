"""HTTP that follows no redirect, and whose connections another thread can cut off."""

from __future__ import annotations

import contextlib
import http.client
import socket
import urllib.request
from typing import Any


class Sockets:
    """The connections of one exchange, so that another thread can end it."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def add(self, connection: http.client.HTTPConnection) -> None:
        """Remember the socket of a connection, which lets go of it as soon as an answer has begun."""
        if connection.sock is not None:
            self._open.append(connection.sock)

    def forget(self) -> None:
        """Forget those that were made: the exchange is over."""
        self._open = []

    def cut(self) -> None:
        """End them: whoever reads from them sees an end."""
        for opened in list(self._open):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


def opener_without_redirects(sockets: Sockets) -> urllib.request.OpenerDirector:
    """Return what opens URLs of HTTP and HTTPS, through the proxy that the environment names.

    A redirect is an answer like any other: whoever redirects a request may lead it anywhere, secrets and all.
    """
    return urllib.request.build_opener(_NoRedirect, _Http(sockets), _Https(sockets))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class _Http(urllib.request.HTTPHandler):
    def __init__(self, sockets: Sockets) -> None:
        super().__init__()
        self._sockets = sockets

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        sockets = self._sockets

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                sockets.add(self)

        return self.do_open(_made_by(Connection), request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, sockets: Sockets) -> None:
        super().__init__()
        self._sockets = sockets

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        sockets = self._sockets

        class Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                sockets.add(self)

        return self.do_open(_made_by(Connection), request)


def _made_by(kind: type[http.client.HTTPConnection]) -> Any:
    def connection(*args: Any, **kwargs: Any) -> http.client.HTTPConnection:
        return kind(*args, **kwargs)

    return connection
