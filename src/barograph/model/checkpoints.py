"""Settings of checkpoints: when they are saved, and how many are kept."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.model.units import seconds_from

_NUMBERS = ("every_minutes", "mtbf_hours")
_EVERY = re.compile(r"every\s*=\s*(?P<steps>\d+)")


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """When checkpoints are saved. Each condition is sufficient.

    Attributes:
        every_steps: Interval in steps; None: no such condition.
        every_minutes: Interval in minutes; None: no such condition.
        auto: The interval follows from the measured cost of a checkpoint and from `mtbf_hours`.
        mtbf_hours: Expected mean time between failures.
        at_findings: Save one when a finding opens that is costly or worse.
        on_sigterm: On SIGTERM, finish the current update, save one, and stop the training.
        keep: How many of the newest are kept. The last one with finite weights is always kept.
    """

    every_steps: int | None = None
    every_minutes: float | None = None
    auto: bool = False
    mtbf_hours: float = 24.0
    at_findings: bool = False
    on_sigterm: bool = True
    keep: int = 3

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data that `checkpoints_from` reads back."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def checkpoints_from(name: str, value: object) -> CheckpointSettings | None:
    """Return checkpoint settings from true, false, a string as for `--checkpoint`, or a table as in `[checkpoints]`.

    Args:
        name: Name of the setting, for messages.
        value: Value from the user; true is "auto".

    Raises:
        UnknownName: An entry or a unit does not exist.
        SettingsError: A value has the wrong type or is out of range.

    Example:
        >>> checkpoints_from("checkpoints", "every=100").every_steps
        100
        >>> checkpoints_from("checkpoints", "10min").every_minutes
        10.0
        >>> checkpoints_from("checkpoints", {"auto": True, "keep": 2}).keep
        2
    """
    if value is None or isinstance(value, bool):
        return CheckpointSettings(auto=True) if value else None
    if isinstance(value, CheckpointSettings):
        return value
    if isinstance(value, str):
        return _from_text(name, value)
    if not isinstance(value, Mapping):
        raise SettingsError(f'{name} is {value!r}; it must be true, false, a string as in "every=100", or a table, as '
                            "in [checkpoints].")
    known = [item.name for item in fields(CheckpointSettings)]
    for entry, setting in value.items():
        if entry not in known:
            raise UnknownName(f'"{entry}" is not a setting of {name}. {nearest(str(entry), known)}')
        _check(f"{name}.{entry}", entry, setting)
    return CheckpointSettings(**value)


def with_cadence(settings: CheckpointSettings | None, text: str, *, name: str) -> CheckpointSettings:
    """Return settings with their cadence replaced by a typed one.

    Args:
        settings: Settings to change; None: the defaults.
        text: "auto", "every=100" or a time.
        name: The option as the user knows it, for messages.

    Raises:
        UnknownName, SettingsError: The text is none of these.

    Example:
        >>> with_cadence(CheckpointSettings(auto=True, keep=2), "every=100", name="--checkpoint")
        CheckpointSettings(every_steps=100, every_minutes=None, auto=False, mtbf_hours=24.0, at_findings=False, \
on_sigterm=True, keep=2)
    """
    typed = _from_text(name, text)
    return replace(settings or typed, every_steps=typed.every_steps, every_minutes=typed.every_minutes, auto=typed.auto)


def _from_text(name: str, text: str) -> CheckpointSettings:
    word = text.strip()
    if word == "auto":
        return CheckpointSettings(auto=True)
    steps = _EVERY.fullmatch(word)
    if steps is not None:
        _check(name, "every_steps", int(steps["steps"]))
        return CheckpointSettings(every_steps=int(steps["steps"]))
    if not word[:1].isdigit() or word.isdigit():
        raise SettingsError(f'{name} is "{text}"; it must be auto, a number of steps (every=100) or a time (10min).')
    secs = seconds_from(name, word)
    _check(name, "every_minutes", secs / 60)
    return CheckpointSettings(every_minutes=secs / 60)


def _check(where: str, entry: str, value: object) -> None:
    if entry in ("auto", "at_findings", "on_sigterm"):
        if not isinstance(value, bool):
            raise SettingsError(f"{where} is {value!r}; it must be true or false.")
    elif entry in _NUMBERS:
        if value is None and entry == "every_minutes":
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise SettingsError(f"{where} is {value!r}; it must be a number above 0.")
    elif value is None and entry == "every_steps":
        return
    elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingsError(f"{where} is {value!r}; it must be an integer, at least 1.")
