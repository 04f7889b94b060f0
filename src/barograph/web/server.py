"""Serves the web application until it is interrupted."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence

from barograph.errors import SettingsError

DEFAULT_PORT = 8642
_NEXT_PORTS = 20
EXTRA = "The web UI needs an extra: pip install 'barograph[studio]'."
"""What to do if a library is missing."""


def serve(
    roots: Sequence[str], *, host: str, port: int | None, token: str, on_ready: Callable[[str], object]
) -> None:
    """Serve the runs below `roots` until the process is interrupted.

    Args:
        roots: Paths or URLs.
        host: Address to listen on.
        port: Port; None: 8642, or the next that is free.
        token: Secret that each request must carry; "": none on this machine alone, else a new one.
        on_ready: Called with the URL once it answers.

    Raises:
        SettingsError: The extra is not installed, or the address cannot be used.
    """
    try:
        import uvicorn

        from barograph.web.app import application
    except ModuleNotFoundError:
        raise SettingsError(EXTRA) from None
    listening = _socket(host, port)
    port = listening.getsockname()[1]
    alone = is_loopback(host)
    token = token or ("" if alone else secrets.token_urlsafe(24))
    shown_host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    name = f"[{shown_host}]" if ":" in shown_host else shown_host
    url = f"http://{name}:{port}/{f'?token={token}' if token else ''}"
    app = application(roots, hosts=hosts_of(host), token=token)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, server_header=False,
                                           timeout_graceful_shutdown=1))
    started = server.startup

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await started(sockets)
        on_ready(url)

    server.startup = startup  # type: ignore[method-assign]  # it has no hook for this
    server.run(sockets=[listening])


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(host: str) -> list[str]:
    """Return the names under which a server at an address may be asked; [] if under any, since it asks for a token."""
    return ["127.0.0.1", "localhost", "[::1]", host] if is_loopback(host) else []


def _socket(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _NEXT_PORTS)]
    reason = ""
    for number in ports:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)
        except (OSError, OverflowError) as error:
            listening.close()
            reason = getattr(error, "strerror", "") or str(error)
        else:
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listening
    raise SettingsError(f"Cannot listen on {host}:{ports[0]}: {reason}. Choose another: --port 0 takes a free one.")
