"""Who is to be told of findings, and when: the tables `[[notify]]` of `barograph.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.model.finding import SEVERITY_ORDER, Severity
from barograph.model.units import seconds_from

EVENTS = ("opened", "closed", "action", "problem")
"""What there is to tell; see `watch.notices.Event`."""

_HOURS = re.compile(r"\s*([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)\s*")
_DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A time of the day, by the clock of this machine, in which nobody is to be disturbed.

    Attributes:
        begin, end: In minutes after midnight; where the end is not after the begin, it is of the next day.
    """

    begin: int
    end: int

    def left_minutes(self, minute: float) -> float:
        """Return how long it lasts from `minute` (after midnight) on; 0.0: it is not that time.

        Example:
            >>> night = QuietHours(22 * 60, 7 * 60)
            >>> night.left_minutes(23 * 60), night.left_minutes(6 * 60 + 30), night.left_minutes(7 * 60)
            (480, 30, 0.0)
        """
        length = (self.end - self.begin) % _DAY_MINUTES
        into = (minute - self.begin) % _DAY_MINUTES
        return length - into if into < length else 0.0


COMMAND = "command:"
"""What a notifier begins with that runs a command."""


@dataclass(frozen=True, slots=True, repr=False)
class Notify:
    """One who is told.

    Never written into a run: where somebody is told is nobody's business who reads the run, and a run is data
    that must not say whom a later watcher tells.

    Attributes:
        to: A URL, or `command:` and a command; `$NAME`, `${NAME}` and `${file:PATH}` in it stand for what the
            environment or a file holds.
        name: What it is called in messages; "": the service's name.
        at_least: Mildest severity of a finding that is told.
        rules: Codes or names of the rules whose findings are told; "all"; "-NAME" takes one away.
        events: Which of `EVENTS` are told.
        quiet_hours: When nothing is told but what is bad enough to wake somebody; None: never.
        wake_for: Mildest severity that is told in quiet hours; None: nothing is.
        digest_secs: How long what there is to tell is gathered, to be told at once; 0: not at all.
        retries: How often it is tried again.
        timeout_secs: Longest time one try may take.
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
        # Whatever prints settings must not print what may hold a secret.
        return f"Notify(name={self.name!r}, …)"


ENTRIES = ("to", "name", "at_least", "rules", "events", "quiet_hours", "wake_for", "digest", "retries", "timeout")
"""What a table `[[notify]]` may hold."""


def notify_to_json(notify: Notify) -> dict[str, Any]:
    """Return the table that `notify_from` reads back; for another process of ours, and never for a run.

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
    """Return who is told, as a URL or a table says.

    Raises:
        UnknownName: An entry, a severity, an event or a unit does not exist; the message says the nearest.
        SettingsError: `to` is missing, or a value has the wrong type or is out of range. No message holds `to`.

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
            raise UnknownName(f'"{entry}" is nothing that [[notify]] can set. {nearest(str(entry), ENTRIES)}')
    to = data.get("to")
    if not isinstance(to, str) or not to.strip():
        raise SettingsError('[[notify]] does not say whom to tell; write to = "$OPS_MAIL", say, with the URL in the '
                            "environment.")
    return Notify(to=to.strip(), **{_FIELDS.get(entry, entry): _READERS[entry](f"notify.{entry}", item)
                                    for entry, item in data.items() if entry != "to"})


def _severity(name: str, value: object) -> Severity:
    if value not in tuple(Severity):
        raise UnknownName(f'{name} is "{value}", which is no severity. {nearest(str(value), Severity)}')
    return Severity(str(value))


def severity_from(name: str, value: object) -> Severity:
    """Return the severity that a text names.

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
        raise SettingsError(f"{name} is {value!r}, which is no time at all: it begins when it ends.")
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
