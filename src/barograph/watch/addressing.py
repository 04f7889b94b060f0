"""From what the settings say of whom to tell, to the post that tells them."""

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
    """Return all who are to be told, checked, and not told anything yet.

    Raises:
        UnknownName: A service or a rule does not exist; the message says the nearest.
        SettingsError: A URL is wrong or holds a secret itself, a variable is not set, a file or a program is missing.
            No message holds a secret.
    """
    found: dict[str, Recipient] = {}
    for number, notify in enumerate(settings.notify, 1):
        name = f'notify "{notify.name}"' if notify.name else f"notify {number}"
        label, notifier = _notifier(notify, name)
        codes = codes_of(notify.rules, settings)
        # Not the place itself: this goes into the watcher's state.
        key = hashlib.sha256(f"{notify.name}\0{notify.to}".encode()).hexdigest()[:12]
        while key in found:
            key += "+"
        found[key] = Recipient(notify, label, notifier, codes, clock=clock)
    return found


def notifiers_of(
    settings: Settings, run: str, *, recipients: Mapping[str, Recipient] | None = None
) -> NotifierQueue | None:
    """Return the post that tells whom the settings say of the run at `run`; None where that is nobody.

    Args:
        settings: `notify` and `notify_timeout_secs`.
        run: Place of the run.
        recipients: As `recipients_of` returned them, where they were checked before.

    Raises:
        As `recipients_of`.
    """
    known = recipients_of(settings) if recipients is None else recipients
    return NotifierQueue(run, known, patience_secs=settings.notify_timeout_secs) if known else None


def _notifier(notify: Notify, name: str) -> tuple[str, MessageNotifier]:
    if notify.to.startswith(COMMAND):
        command = CommandNotifier(notify.to.removeprefix(COMMAND), timeout_secs=notify.timeout_secs)
        return notify.name or f"The command {command.program}", command
    check_no_inline_secret(notify.to, name)
    url = filled(notify.to)
    scheme, separator, _ = url.text.partition("://")
    from_elsewhere = has_reference(notify.to)
    if not separator:
        what = "what the environment or a file says" if from_elsewhere else f'"{notify.to}"'
        raise SettingsError(f"{name}: {what} is no URL; write https://…, mailto://…, or command:./tell.sh, say.")
    if scheme in _HTTP:
        host = urlsplit(url.text).hostname
        if not host:
            raise SettingsError(f"{name}: the URL names no host.")
        label = notify.to if notify.to.startswith(("$", "file:")) else f"{scheme}://{host}"
        return notify.name or f"The webhook {label}", Webhook(url, timeout_secs=notify.timeout_secs)
    try:
        # Here alone, since most runs tell nobody, and it knows over a hundred services.
        from barograph.watch.apprise_notifier import AppriseNotifier, service_names
    except ImportError as error:
        raise SettingsError(f"{name}: {scheme}:// needs the package apprise, which cannot be loaded.") from error
    if scheme.lower() not in service_names():
        known = (*service_names(), *_HTTP, "command")
        close = nearest(scheme.lower(), known)
        hint = close if close.startswith("Did you") else ("There are https, command, and the services of Apprise: "
                                                         "mailto, slack, discord, tgram, ntfy, …")
        shown = f'"{scheme}"' if not from_elsewhere or notify.to.startswith(scheme) else "that the URL names"
        raise UnknownName(f"{name}: there is no service {shown}. {hint}")
    service = AppriseNotifier(url, timeout_secs=notify.timeout_secs, inline=not from_elsewhere)
    return notify.name or f"The service {scheme}", service
