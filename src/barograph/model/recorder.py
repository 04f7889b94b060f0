"""Settings of the flight recorder: when it holds a step, and what it does then."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest

STOP, SKIP = "stop", "skip"
_FUNCTION = re.compile(r"[A-Za-z_?][\w.]*:[A-Za-z_<?][\w.<>]*")
"""Matches functions that cannot be imported, too: "train:main.<locals>.steep", "train:<lambda>"."""


@dataclass(frozen=True, slots=True)
class UpdateSeen:
    """State of a step before its update, passed to the user's function that may hold it.

    Attributes:
        step: Step number as the user counts.
        optimizer: Optimizer of the update; "" if the script has one.
        losses: Losses of the backward passes of this step.
        norm: L2 norm of all gradients of the optimizer together, before clipping.
        norms: L2 norm of each gradient, by the path of its parameter.
    """

    step: int
    optimizer: str
    losses: tuple[float, ...]
    norm: float
    norms: Mapping[str, float] = field(default_factory=dict)


HoldsWhen = Callable[[UpdateSeen], object]
"""Decides whether a step is held: returns anything true, or a string with the reason."""


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Settings of the flight recorder. A step with nonfinite gradients is always held.

    Attributes:
        then: "stop" stops the training; "skip" skips the update and continues.
        at_most: Steps held with "skip" before the training is stopped anyway.
        norm_above: Holds a step if the norm of all gradients of an optimizer is above it; None: no bound.
        loss_above: Holds a step if the loss is this many spreads above its level, from step 21 on; None: no bound.
        when: Function of the user that decides to hold a step, or its place as "module:function"; None: none.
        ring: Number of latest steps kept in memory, since a finding is about a past step. Each is a copy of weights
            and optimizer state.
        capsule_on: Rules whose findings save the step: from the ring, else the next one.
        pickle: Store objects of a batch that are not plain data with pickle, in a separate file. Without it, the
            capsule lists them as missing.
    """

    then: str = STOP
    at_most: int = 10
    norm_above: float | None = None
    loss_above: float | None = None
    when: HoldsWhen | str | None = None
    ring: int = 0
    capsule_on: tuple[str, ...] = ()
    pickle: bool = False

    @property
    def may_hold_finite(self) -> bool:
        """Whether a step with finite values may be held: because of a bound or the user's function."""
        return self.norm_above is not None or self.loss_above is not None or self.when is not None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data that `recorder_from` reads back."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**found, "when": function_name(self.when) if self.when is not None else None,
                "capsule_on": list(self.capsule_on)}


def function_name(function: HoldsWhen | str) -> str:
    """Return the place of a function as "module:function".

    Example:
        >>> function_name(math.isnan), function_name("checks:too_high")
        ('math:isnan', 'checks:too_high')
    """
    if isinstance(function, str):
        return function
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None) or '?'}:{getattr(named, '__qualname__', '?')}"


def is_function_name(text: str) -> bool:
    """Return whether a string has the form "module:function".

    Example:
        >>> is_function_name("checks:steep"), is_function_name("checks.steep")
        (True, False)
    """
    return _FUNCTION.fullmatch(text) is not None


def recorder_from(name: str, value: object) -> RecorderSettings | None:
    """Return recorder settings from true, false, or a table as in `[recorder]`.

    Args:
        name: Name of the setting, for messages.
        value: Value from the user.

    Raises:
        UnknownName: An entry or a choice does not exist.
        SettingsError: A value has the wrong type or is out of range.

    Example:
        >>> recorder_from("recorder", {"then": "skip"}).then, recorder_from("recorder", False)
        ('skip', None)
    """
    if value is None or isinstance(value, bool | RecorderSettings):
        return (RecorderSettings() if value else None) if not isinstance(value, RecorderSettings) else value
    if not isinstance(value, Mapping):
        raise SettingsError(f"{name} is {value!r}; it must be true, false, or a table, as in [recorder].")
    known = [item.name for item in fields(RecorderSettings)]
    for entry, setting in value.items():
        if entry not in known:
            raise UnknownName(f'"{entry}" is not a setting of {name}. {nearest(str(entry), known)}')
        _check(f"{name}.{entry}", entry, setting)
    return RecorderSettings(**{**value, **({"capsule_on": names_from(value["capsule_on"])} if "capsule_on" in value
                                           else {})})


def names_from(value: object) -> tuple[str, ...]:
    """Return the names in a list or in a comma-separated string.

    Example:
        >>> names_from("G101, dead-relu")
        ('G101', 'dead-relu')
    """
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise SettingsError(f'recorder.capsule_on is {value!r}; it must be a list of rules, as in ["G101"].')
    return tuple(word.strip() for word in words if word.strip())


def _check(where: str, entry: str, value: object) -> None:
    if entry == "then":
        if value not in (STOP, SKIP):
            raise UnknownName(f'{where} is "{value}". {nearest(str(value), (STOP, SKIP))}')
    elif entry == "when":
        if not (value is None or callable(value) or (isinstance(value, str) and is_function_name(value))):
            raise SettingsError(f'{where} is {value!r}; it must be a function, or the name of one: "module:function".')
    elif entry == "pickle":
        if not isinstance(value, bool):
            raise SettingsError(f"{where} is {value!r}; it must be true or false.")
    elif entry == "capsule_on":
        names_from(value)
    elif entry in ("at_most", "ring"):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SettingsError(f"{where} is {value!r}; it must be an integer, at least 0.")
    elif value is not None and (isinstance(value, bool) or not isinstance(value, int | float)
                                or not 0 < value < math.inf):
        raise SettingsError(f"{where} is {value!r}; it must be a number above 0.")
