"""Sends messages by e-mail, SMS, chat and a hundred other services through Apprise. The only file that imports
Apprise."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import apprise
from apprise.manager_plugins import NotificationManager

from barograph.errors import SettingsError
from barograph.model.finding import Severity
from barograph.watch.message import Message
from barograph.watch.message_notifier import NotDelivered
from barograph.watch.notices import Event
from barograph.watch.secrets import HOW_TO_WRITE, Secret
from barograph.watch.terminal import text_of

_TYPES = {
    Severity.BREAKING: apprise.NotifyType.FAILURE, Severity.COSTLY: apprise.NotifyType.WARNING,
    Severity.DOUBTFUL: apprise.NotifyType.WARNING, Severity.NOTE: apprise.NotifyType.INFO,
}
with warnings.catch_warnings():
    # Some of Apprise's services use features that Python deprecates.
    warnings.simplefilter("ignore")
    _SERVICES = sorted(NotificationManager().schemas())  # type: ignore[no-untyped-call]

_LOG = logging.getLogger("apprise")


class AppriseNotifier:
    """Sends messages to one Apprise service.

    Args:
        url: URL of the service, including its secrets.
        timeout_secs: Time limit for connecting, and for each response.
        inline: Whether the URL has no references to the environment or a file; then it must not contain a secret.

    Raises:
        SettingsError: The URL is incomplete or contains a secret, or this machine cannot use the service.
    """

    def __init__(self, url: Secret, *, timeout_secs: float, inline: bool) -> None:
        self._url = url
        self._timeout_secs = timeout_secs
        scheme = url.text.partition("://")[0].lower()
        _check_usable_here(scheme)
        with _CapturedLog() as log:
            service = apprise.Apprise.instantiate(_with_timeouts(url.text, timeout_secs), suppress_exceptions=True)
        if service is None:
            reason = f": {url.hide(log.text)}" if log.text else ""
            raise SettingsError(f"The {scheme} URL to notify is incomplete or invalid{reason}.")
        if inline and service.url(privacy=True) != service.url(privacy=False):  # type: ignore[no-untyped-call]
            raise SettingsError(f"The {scheme} URL to notify contains a password or a token in plain text. "
                                f"{HOW_TO_WRITE}")
        self._service = service

    def send(self, messages: Sequence[Message]) -> None:
        """See `MessageNotifier.send`."""
        with _CapturedLog() as log:
            try:
                arrived = self._service.notify(
                    body="\n\n".join(f"{text_of(message.notice).plain}" for message in messages)
                    + f"\n\nrun {messages[0].run}",
                    title=title_of(messages), notify_type=_type_of(messages), body_format=apprise.NotifyFormat.TEXT,
                )
            except Exception as error:  # noqa: BLE001 - over a hundred services, each with its own errors
                raise NotDelivered(self._url.hide(f"{type(error).__name__}: {error}")) from None
        if not arrived:
            raise NotDelivered(self._url.hide(log.text) or "the service rejected the message")

    def abort(self) -> None:
        """See `MessageNotifier.abort`; does nothing, since the connections have their own timeouts."""


def _check_usable_here(scheme: str) -> None:
    manager = NotificationManager()  # type: ignore[no-untyped-call]
    service = manager[scheme] if scheme in _SERVICES else None
    if service is None or service.enabled:
        return
    needs: Mapping[str, Any] = service.requirements
    packages = needs.get("packages_required") or ()
    named = packages if isinstance(packages, str) else ", ".join(map(str, packages))
    what = f"It requires {named}: install it with pip." if named else str(needs.get("details") or "")
    close = {"dbus", "qt", "kde", "glib", "gnome", "macosx", "windows"}
    desk = ' Alternatively, run a program: "command:./notice.sh".' if scheme in close else ""
    raise SettingsError(f"The service {scheme} is not available on this machine. {what}{desk} See {service.setup_url}.")


def service_names() -> list[str]:
    """Return the URL schemes that Apprise supports: "mailto", "slack", …"""
    return _SERVICES


def title_of(messages: Sequence[Message]) -> str:
    """Return the subject line: the most severe message."""
    found = [item.finding for item in messages if item.finding is not None and item.event is Event.OPENED]
    if len(messages) == 1:
        message = messages[0]
        finding = message.finding
        word = {Event.CLOSED: "gone: ", Event.ACTION: "done: ", Event.PROBLEM: "problem: "}.get(message.event, "")
        what = f"{finding.severity.value} {finding.code} {finding.rule}" if finding else message.text
        return f"barograph: {word}{what}"
    worst = min((list(Severity).index(item.severity) for item in found), default=None)
    least = f", the worst {list(Severity)[worst].value}" if worst is not None else ""
    return f"barograph: {len(messages)} notices{least}"


def _type_of(messages: Sequence[Message]) -> apprise.NotifyType:
    if all(message.event is Event.CLOSED for message in messages):
        return apprise.NotifyType.SUCCESS
    severities = [item.severity for item in messages if item.severity is not None]
    return _TYPES[min(severities, key=list(Severity).index)] if severities else apprise.NotifyType.WARNING


def _with_timeouts(url: str, timeout_secs: float) -> str:
    # Apprise reads the connect (cto) and read (rto) timeouts from the URL.
    if "cto=" in url or "rto=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}cto={timeout_secs:g}&rto={timeout_secs:g}"


class _CapturedLog(logging.Handler):
    """Keeps Apprise's log records of this thread during a send, and hides them from other handlers, since they may
    contain secrets."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._thread = threading.get_ident()
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """All log records in one line."""
        return "; ".join(dict.fromkeys(" ".join(text.split()).rstrip(".") for text in self._texts))

    def emit(self, record: logging.LogRecord) -> None:
        # Only the details contain the server's response, as "Socket Exception: …".
        if record.thread == self._thread and (record.levelno >= logging.WARNING or "Exception" in str(record.msg)):
            self._texts.append(record.getMessage())

    def __enter__(self) -> _CapturedLog:
        _LOG.propagate = False
        _LOG.setLevel(logging.DEBUG)
        _LOG.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        _LOG.removeHandler(self)
        _LOG.setLevel(logging.WARNING)
