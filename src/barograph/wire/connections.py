"""HTTP that follows no redirect, and whose connections another thread can cut off."""

from __future__ import annotations

import contextlib
import http.client
import socket
import urllib.request
from typing import Any


class Sockets:
    """The connection of one exchange, so that another thread can end it."""

    def __init__(self) -> None:
        self._open: list[http.client.HTTPConnection] = []

    def add(self, connection: http.client.HTTPConnection) -> None:
        """Remember a connection that is about to be made."""
        self._open.append(connection)

    def forget(self) -> None:
        """Forget those that were made: the exchange is over."""
        self._open = []

    def cut(self) -> None:
        """End them: whoever reads from them sees an end."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                if connection.sock is not None:
                    connection.sock.shutdown(socket.SHUT_RDWR)


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
        def connection(*args: Any, **kwargs: Any) -> http.client.HTTPConnection:
            made = http.client.HTTPConnection(*args, **kwargs)
            self._sockets.add(made)
            return made

        return self.do_open(connection, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, sockets: Sockets) -> None:
        super().__init__()
        self._sockets = sockets

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        def connection(*args: Any, **kwargs: Any) -> http.client.HTTPConnection:
            made = http.client.HTTPSConnection(*args, **kwargs)
            self._sockets.add(made)
            return made

        return self.do_open(connection, request)
