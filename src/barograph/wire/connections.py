"""HTTP without redirects, with connections that another thread can close."""

from __future__ import annotations

import contextlib
import http.client
import socket
import urllib.request
from typing import Any


class Sockets:
    """Connections of one request, so that another thread can abort it."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def add(self, connection: http.client.HTTPConnection) -> None:
        """Store the socket of a connection, which drops it once a response starts."""
        if connection.sock is not None:
            self._open.append(connection.sock)

    def forget(self) -> None:
        """Forget all connections, after the request."""
        self._open = []

    def cut(self) -> None:
        """Close all connections: readers see the end of the stream."""
        for opened in list(self._open):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


def opener_without_redirects(sockets: Sockets) -> urllib.request.OpenerDirector:
    """Return an opener for HTTP and HTTPS, with the proxy of the environment.

    Redirects are not followed, because they could send credentials anywhere.
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
