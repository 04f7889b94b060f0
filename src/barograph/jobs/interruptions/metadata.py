"""Metadata services of clouds: HTTP servers on a link-local address that know when their instance will end."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from typing import NamedTuple

from barograph.jobs.interruptions.notice import Notice

LINK_LOCAL = "http://169.254.169.254"
"""The address in all three clouds. A host name could take many seconds to resolve outside its cloud."""

_CONNECT_SECS = 0.5
_RESPONSE_SECS = 5.0
_MOST_BYTES = 1 << 20


class NoService(Exception):
    """Nothing accepts connections at the address, or another cloud's service responds there."""


class ServiceFailed(Exception):
    """The service did not respond as documented; it may later."""


class Response(NamedTuple):
    """Response to a request, whatever its status."""

    status: int
    text: str
    headers: Message


class MetadataSource(ABC):
    """An interruption source that polls a metadata service.

    The source disables itself if the first request shows that there is no such service. A service that has responded
    once is polled forever, even through failures.

    Args:
        url: `http://HOST` of the service.
        certain: This machine is known to be in this cloud: never disable the source.
    """

    interval_secs = 5.0

    def __init__(self, url: str = LINK_LOCAL, *, certain: bool = False) -> None:
        self._url = url.rstrip("/")
        self._found = certain
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
        self.disabled = False

    @abstractmethod
    def current(self) -> Notice | None:
        """Return the notice that the service has now.

        Raises:
            NoService: This is not the service.
            Exception: It sent something else than documented.
        """

    def poll(self) -> Notice | None:
        """Return the current notice, None if there is none. Never raises."""
        if self.disabled:
            return None
        try:
            return self.current()
        except NoService:
            self.disabled = not self._found
        except Exception:  # noqa: BLE001 - an outage, or content that is wrong in any way: ask again
            return None
        return None

    def request(self, path: str, headers: Mapping[str, str], *, method: str = "GET") -> Response:
        """Return the response of the service.

        Raises:
            NoService: Nothing accepts a connection.
            ServiceFailed: It accepts a connection and does not respond in time, or with a server error.
        """
        try:
            asked = urllib.request.Request(f"{self._url}{path}", headers=dict(headers), method=method)
            timeout_secs = _RESPONSE_SECS if self._found else _CONNECT_SECS
            until = time.monotonic() + timeout_secs
            with self._opener.open(asked, timeout=timeout_secs) as answer:
                return Response(answer.status, _read(answer, until), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                if error.code >= 500 or error.code in (408, 429):
                    raise ServiceFailed(str(error)) from None
                return Response(error.code, "", error.headers)
        except urllib.error.URLError as error:
            raise NoService(str(error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServiceFailed(str(error)) from error

    def found(self) -> None:
        """Note that this is the right service."""
        self._found = True


def unix_from_iso(text: str) -> float:
    """Return the seconds since 1970 of a time such as `2027-01-15T08:00:00Z`; without a zone, UTC.

    Raises:
        ValueError: It is not a time.

    Example:
        >>> unix_from_iso("2027-01-15T08:00:00Z")
        1800000000.0
    """
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _read(answer: http.client.HTTPResponse, until: float) -> str:
    """Read the body. The timeout of a socket restarts with each byte; this one does not."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(_MOST_BYTES):
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES or time.monotonic() > until:
            raise ServiceFailed("the response is too long or too slow")
    return b"".join(parts).decode("utf-8", "replace")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None
