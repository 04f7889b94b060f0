"""Settings of notifications: the tables `[[notify]]` of `barograph.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.model.finding import SEVERITY_ORDER, Severity
from barograph.model.units import seconds_from

EVENTS = ("opened", "closed", "action", "problem")
"""Events that can be notified; see `watch.notices.Event`."""

_HOURS = re.compile(r"\s*([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)\s*")
_DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A daily period without notifications, by the clock of this machine.

    Attributes:
        begin, end: Minutes after midnight. An end that is not after the begin is on the next day.
    """

    begin: int
    end: int

    def left_minutes(self, minute: float) -> float:
        """Return the minutes left of the period at `minute` (after midnight); 0.0 outside of it.

        Example:
            >>> night = QuietHours(22 * 60, 7 * 60)
            >>> night.left_minutes(23 * 60), night.left_minutes(6 * 60 + 30), night.left_minutes(7 * 60)
            (480, 30, 0.0)
        """
        length = (self.end - self.begin) % _DAY_MINUTES
        into = (minute - self.begin) % _DAY_MINUTES
        return length - into if into < length else 0.0


COMMAND = "command:"
"""Prefix of a notifier that runs a command."""


@dataclass(frozen=True, slots=True, repr=False)
class Notify:
    """One receiver of notifications.

    It is never written into a run: readers of the run must not see where notifications go, and the data of a run
    must not decide whom a later watcher notifies.

    Attributes:
        to: A URL, or `command:` and a command; `$NAME`, `${NAME}` and `${file:PATH}` in it are replaced from the
            environment or a file.
        name: Name in messages; "": the name of the service.
        at_least: Mildest severity of a finding that is sent.
        rules: Codes or names of the rules whose findings are sent; "all"; "-NAME" excludes one.
        events: Events that are sent, of `EVENTS`.
        quiet_hours: Period without notifications, except for `wake_for`; None: none.
        wake_for: Mildest severity that is sent in quiet hours; None: nothing is.
        digest_secs: Events of this many seconds are sent in one message; 0: each by itself.
        retries: Number of retries.
        timeout_secs: Timeout of one try.
    """

    to: str
    name: str = ""
    at_least: Severity = Severity.NOTE
    rules: tuple[str, ...] = ("all",)
    events: tuple[str, ...] = ("opened", "closed", "action")
    quiet_hours: QuietHours | None = None
    wake_for: Severity | None = Severity.BREAKING
    digest_secs: float = 0.0
    retries: int = 8
    timeout_secs: float = 10.0

    def __repr__(self) -> str:
        # Exclude `to` from the representation, because it may contain a secret.
        return f"Notify(name={self.name!r}, …)"


ENTRIES = ("to", "name", "at_least", "rules", "events", "quiet_hours", "wake_for", "digest", "retries", "timeout")
"""Entries of a table `[[notify]]`."""


def notify_to_json(notify: Notify) -> dict[str, Any]:
    """Return the table that `notify_from` reads back, for another process of Barograph; never for a run.

    Example:
        >>> notify_to_json(Notify("$OPS_MAIL", quiet_hours=QuietHours(1320, 420)))["quiet_hours"]
        '22:00-07:00'
    """
    quiet = notify.quiet_hours
    table: dict[str, Any] = {
        "to": notify.to, "name": notify.name, "at_least": notify.at_least.value, "rules": list(notify.rules),
        "events": list(notify.events), "wake_for": notify.wake_for.value if notify.wake_for else "none",
        "digest": notify.digest_secs, "retries": notify.retries, "timeout": notify.timeout_secs,
    }
    if quiet is not None:
        table["quiet_hours"] = "-".join(f"{at // 60:02}:{at % 60:02}" for at in (quiet.begin, quiet.end))
    return table


def notify_from(value: object) -> Notify:
    """Return the receiver that a URL or a table describes.

    Raises:
        UnknownName: An entry, a severity, an event or a unit does not exist; the message suggests the nearest.
        SettingsError: `to` is missing, or a value has the wrong type or is out of range. No message contains `to`.

    Example:
        >>> notify_from({"to": "$OPS_MAIL", "at_least": "costly", "digest": "15m"}).digest_secs
        900.0
    """
    if isinstance(value, Notify):
        return value
    data = {"to": value} if isinstance(value, str) else value
    if not isinstance(data, Mapping):
        raise SettingsError("notify must be tables, as in [[notify]], or URLs.")
    for entry in data:
        if entry not in ENTRIES:
            raise UnknownName(f'"{entry}" is not a setting of [[notify]]. {nearest(str(entry), ENTRIES)}')
    to = data.get("to")
    if not isinstance(to, str) or not to.strip():
        raise SettingsError('[[notify]] has no receiver. Write, for example, to = "$OPS_MAIL", with the URL in the '
                            'environment.')
    return Notify(to=to.strip(), **{_FIELDS.get(entry, entry): _READERS[entry](f"notify.{entry}", item)
                                    for entry, item in data.items() if entry != "to"})


def _severity(name: str, value: object) -> Severity:
    if value not in tuple(Severity):
        raise UnknownName(f'{name} is "{value}", which is not a severity. {nearest(str(value), Severity)}')
    return Severity(str(value))


def severity_from(name: str, value: object) -> Severity:
    """Return the severity with this name.

    Raises:
        UnknownName: There is no such severity.
    """
    return _severity(name, value)


def _severity_or_none(name: str, value: object) -> Severity | None:
    return None if value == "none" else _severity(name, value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{name} is {value!r}; it must be a string.")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise SettingsError(f"{name} is {value!r}; it must be a list of strings.")
    return tuple(word.strip() for word in words if word.strip())


def _events(name: str, value: object) -> tuple[str, ...]:
    words = _texts(name, value)
    for word in words:
        if word not in EVENTS:
            raise UnknownName(f'{name}: there is no event "{word}". {nearest(word, EVENTS)}')
    return words


def _quiet_hours(name: str, value: object) -> QuietHours:
    match = _HOURS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise SettingsError(f'{name} is {value!r}; it must be two times of the day, as in "22:00-07:00".')
    begin, end = (60 * int(match[hour]) + int(match[hour + 1]) for hour in (1, 3))
    if begin == end:
        raise SettingsError(f"{name} is {value!r}, an empty period: it ends when it begins.")
    return QuietHours(begin, end)


def _retries(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SettingsError(f"{name} is {value!r}; it must be an integer, at least 0.")
    return value


def _timeout(name: str, value: object) -> float:
    secs = seconds_from(name, value)
    if not secs:
        raise SettingsError(f"{name} is {value!r}; it must be above 0.")
    return secs


def at_least(severity: Severity, mildest: Severity) -> bool:
    """Return whether a severity is `mildest` or worse.

    Example:
        >>> at_least(Severity.BREAKING, Severity.COSTLY), at_least(Severity.NOTE, Severity.COSTLY)
        (True, False)
    """
    return SEVERITY_ORDER.index(severity) <= SEVERITY_ORDER.index(mildest)


_FIELDS: Mapping[str, str] = {"digest": "digest_secs", "timeout": "timeout_secs"}
_READERS: Mapping[str, Any] = {
    "name": _text, "at_least": _severity, "rules": _texts, "events": _events, "quiet_hours": _quiet_hours,
    "wake_for": _severity_or_none, "digest": seconds_from, "retries": _retries, "timeout": _timeout,
}
