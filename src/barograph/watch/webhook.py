"""Sends messages as CloudEvents 1.0 over HTTP.

Structured mode: one message is a JSON event (`application/cloudevents+json`), several are a batch
(`application/cloudevents-batch+json`).

Source: CloudEvents 1.0.2; JSON Event Format 1.0.2; HTTP 1.1 Web Hooks for Event Delivery 1.0.2.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import math
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from barograph.version import __version__
from barograph.watch.message import Message
from barograph.watch.message_notifier import NotDelivered
from barograph.watch.notices import Event
from barograph.watch.secrets import Secret
from barograph.wire.connections import Sockets, opener_without_redirects

_TYPES = {
    Event.OPENED: "org.barograph.finding.opened", Event.CLOSED: "org.barograph.finding.closed",
    Event.ACTION: "org.barograph.action", Event.PROBLEM: "org.barograph.problem",
}
_AGAIN = (408, 425, 429)
"""4xx status codes worth a retry; the others are final."""
_LONGEST_AFTER_SECS = 600.0
_ANSWER_BYTES = 65536


class Webhook:
    """Posts events to a URL.

    Args:
        url: `http://` or `https://`, with its secrets.
        timeout_secs: Longest time for one try, from the first byte to the last.
    """

    def __init__(self, url: Secret, *, timeout_secs: float) -> None:
        self._url = url
        self._timeout_secs = timeout_secs
        self._sockets = Sockets()
        self._opener = opener_without_redirects(self._sockets)

    def send(self, messages: Sequence[Message]) -> None:
        """See `MessageNotifier.send`."""
        events = [cloud_event(message) for message in messages]
        batch = len(events) > 1
        request = urllib.request.Request(
            self._url.text, json.dumps(events if batch else events[0], allow_nan=False).encode(), method="POST",
            headers={"Content-Type": f"application/cloudevents{'-batch' if batch else ''}+json; charset=utf-8",
                     "User-Agent": f"barograph/{__version__}"},
        )
        late = threading.Event()

        def cut() -> None:
            late.set()
            self._sockets.cut()

        # A socket timeout restarts with each byte, so a slow server could block us forever.
        watch = threading.Timer(self._timeout_secs, cut)
        watch.daemon = True
        watch.start()
        try:
            with self._opener.open(request, timeout=self._timeout_secs) as answer:
                answer.read(_ANSWER_BYTES)
            if late.is_set():
                # A response that was cut off in its headers looks complete.
                raise TimeoutError
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            timed_out = late.is_set() or isinstance(_reason(error), TimeoutError)
            why = f"no response within {self._timeout_secs:g} s" if timed_out else self._url.hide(_in_words(error))
            raise NotDelivered(why, again=not isinstance(error, ValueError)) from None
        finally:
            watch.cancel()
            self._sockets.forget()

    def abort(self) -> None:
        """See `MessageNotifier.abort`."""
        self._sockets.cut()


def cloud_event(message: Message) -> dict[str, Any]:
    """Return the message as a CloudEvent in JSON.

    Example:
        >>> from barograph.watch.message import message_of
        >>> from barograph.watch.notices import Notice
        >>> event = cloud_event(message_of(Notice(Event.PROBLEM, "The store is away."), "s3://bucket/a run", 0.0))
        >>> event["source"], event["type"], event["time"]
        ('s3://bucket/a%20run', 'org.barograph.problem', '1970-01-01T00:00:00+00:00')
    """
    finding = message.finding
    event = {
        "specversion": "1.0", "id": message.id, "source": source_of(message.run), "type": _TYPES[message.event],
        "time": datetime.fromtimestamp(message.made_unix, UTC).isoformat(), "datacontenttype": "application/json",
        "data": message.body(),
    }
    if finding is not None:
        event["subject"] = f"{finding.code} {finding.rule}"
    return event


def source_of(run: str) -> str:
    """Return the URL of a run as a URI reference, without secrets.

    Example:
        >>> source_of("s3://key:secret@bucket/run?token=x")
        's3://bucket/run'
    """
    parts = urlsplit(run)
    if not parts.scheme or not parts.netloc:
        return quote(run, safe="/:@~") or "run"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], quote(parts.path, safe="/:@~%"), "", ""))


def _refused(error: urllib.error.HTTPError) -> NotDelivered:
    phrase = http.client.responses.get(error.code, "")
    why = f"HTTP {error.code} {phrase}".rstrip()
    if 300 <= error.code < 400:
        return NotDelivered(f"{why}: redirects are not followed; use the target URL", again=False)
    again = error.code >= 500 or error.code in _AGAIN
    return NotDelivered(why, again=again, after_secs=_after_secs(error.headers.get("Retry-After", "")))


def _after_secs(text: str) -> float:
    try:
        until = email.utils.parsedate_to_datetime
        secs = float(text) if text.strip().isdigit() else until(text).timestamp() - time.time()
    except (ValueError, TypeError, IndexError):
        return 0.0
    return min(max(secs, 0.0), _LONGEST_AFTER_SECS) if math.isfinite(secs) else 0.0


def _reason(error: BaseException) -> object:
    return error.reason if isinstance(error, urllib.error.URLError) else error


def _in_words(error: BaseException) -> str:
    reason = _reason(error)
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__
