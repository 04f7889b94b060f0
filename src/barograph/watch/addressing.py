"""Builds recipients and their notifiers from the settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.model.clock import Clock
from barograph.model.notify import COMMAND, Notify
from barograph.model.settings import Settings
from barograph.rules.registry import codes_of
from barograph.watch.command_notifier import CommandNotifier
from barograph.watch.message_notifier import MessageNotifier
from barograph.watch.notifier_queue import NotifierQueue
from barograph.watch.recipient import Recipient
from barograph.watch.secrets import check_no_inline_secret, filled, has_reference
from barograph.watch.webhook import Webhook

_HTTP = ("http", "https")


def recipients_of(settings: Settings, *, clock: Clock | None = None) -> Mapping[str, Recipient]:
    """Return all recipients of the settings, validated; sends nothing.

    Raises:
        UnknownName: A service or a rule does not exist; the message suggests the closest name.
        SettingsError: A URL is wrong or contains a secret, a variable is not set, or a file or a program is missing.
            Messages never contain secrets.
    """
    found: dict[str, Recipient] = {}
    for number, notify in enumerate(settings.notify, 1):
        name = f'notify "{notify.name}"' if notify.name else f"notify {number}"
        label, notifier = _notifier(notify, name)
        codes = codes_of(notify.rules, settings)
        # A digest, not the URL: the watcher's saved state contains this key.
        key = hashlib.sha256(f"{notify.name}\0{notify.to}".encode()).hexdigest()[:12]
        while key in found:
            key += "+"
        found[key] = Recipient(notify, label, notifier, codes, clock=clock)
    return found


def notifiers_of(
    settings: Settings, run: str, *, recipients: Mapping[str, Recipient] | None = None
) -> NotifierQueue | None:
    """Return the queue that notifies the recipients of the settings about a run; None without recipients.

    Args:
        settings: `notify` and `notify_timeout_secs`.
        run: URL of the run.
        recipients: Result of `recipients_of`, if validated before.

    Raises:
        See `recipients_of`.
    """
    known = recipients_of(settings) if recipients is None else recipients
    return NotifierQueue(run, known, patience_secs=settings.notify_timeout_secs) if known else None


def _notifier(notify: Notify, name: str) -> tuple[str, MessageNotifier]:
    if notify.to.startswith(COMMAND):
        command = CommandNotifier(notify.to.removeprefix(COMMAND), timeout_secs=notify.timeout_secs)
        return notify.name or f"the command {command.program}", command
    check_no_inline_secret(notify.to, name)
    url = filled(notify.to)
    scheme, separator, _ = url.text.partition("://")
    from_elsewhere = has_reference(notify.to)
    if not separator:
        what = "the value from the environment or file" if from_elsewhere else f'"{notify.to}"'
        raise SettingsError(f"{name}: {what} is not a URL. Examples: https://…, mailto://…, command:./notify.sh.")
    if scheme in _HTTP:
        host = urlsplit(url.text).hostname
        if not host:
            raise SettingsError(f"{name}: the URL has no host.")
        label = notify.to if notify.to.startswith(("$", "file:")) else f"{scheme}://{host}"
        return notify.name or f"the webhook {label}", Webhook(url, timeout_secs=notify.timeout_secs)
    try:
        # Imported on use: most runs have no recipients, and Apprise loads over a hundred services.
        from barograph.watch.apprise_notifier import AppriseNotifier, service_names
    except ImportError as error:
        raise SettingsError(f"{name}: {scheme}:// needs the package apprise, which cannot be imported.") from error
    if scheme.lower() not in service_names():
        known = (*service_names(), *_HTTP, "command")
        close = nearest(scheme.lower(), known)
        hint = close if close.startswith("Did you") else ("Available: https, command, and the services of Apprise: "
                                                         "mailto, slack, discord, tgram, ntfy, …")
        shown = f'"{scheme}"' if not from_elsewhere or notify.to.startswith(scheme) else "in the URL"
        raise UnknownName(f"{name}: unknown service {shown}. {hint}")
    service = AppriseNotifier(url, timeout_secs=notify.timeout_secs, inline=not from_elsewhere)
    return notify.name or f"the service {scheme}", service
