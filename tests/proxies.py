"""A reverse proxy before a studio, as nginx is by default: it lets no sockets through."""

from __future__ import annotations

import contextlib
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_END_SECS = 600.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


@contextmanager
def proxied(port: int, prefix: str = "") -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the address of a proxy before a port of this machine, every path asked for, and those asked as sockets."""
    asked: list[str] = []
    refused: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            if "upgrade" in self.headers:
                refused.append(self.path)
                self.send_error(403)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            # The studio sees another host than the browser.
            kept = {name: text for name, text in self.headers.items() if name.lower() not in ("host", "connection")}
            request = urllib.request.Request(f"http://127.0.0.1:{port}{self.path.removeprefix(prefix)}", body or None,
                                             kept, method=self.command)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
            try:
                answer = opener.open(request, timeout=_END_SECS)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                data = answer.read()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                with contextlib.suppress(ConnectionError):  # the page no longer wants it
                    self.end_headers()
                    self.wfile.write(data)

        do_POST = do_GET  # noqa: N815 - the library finds it by this name

        def log_message(self, *_: Any) -> None: ...

    web = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{web.server_port}{prefix}/", asked, refused
    finally:
        web.shutdown()
        web.server_close()
        thread.join(_END_SECS)
