"""How the flight recorder is set: what makes it hold a step, and what it does then."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest

STOP, SKIP = "stop", "skip"
_FUNCTION = re.compile(r"[A-Za-z_?][\w.]*:[A-Za-z_<?][\w.<>]*")
"""Also of one that nobody can import, by its name alone: "train:main.<locals>.steep", "train:<lambda>"."""


@dataclass(frozen=True, slots=True)
class UpdateSeen:
    """What is known of a step before its update: a function of the user's own may hold it for any of this.

    Attributes:
        step: As the user counts.
        optimizer: Whose update it is; "" where the script has one.
        losses: What backward passes of this step started from, each as a number.
        norm: L2 norm of all gradients of the optimizer together, before they were clipped.
        norms: That of each, by the path of its parameter.
    """

    step: int
    optimizer: str
    losses: tuple[float, ...]
    norm: float
    norms: Mapping[str, float] = field(default_factory=dict)


HoldsWhen = Callable[[UpdateSeen], object]
"""Says whether a step is to be held: anything true, or a text that says why."""


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """How the flight recorder works; a step whose gradients are not finite is always held.

    Attributes:
        then: "stop": the training is stopped; "skip": the update is withheld and the training goes on.
        at_most: Steps held with "skip" before the training is stopped all the same.
        norm_above: Norm of all gradients of an optimizer beyond which a step is held; None: no bound.
        loss_above: Spreads that the loss may lie above its level, from the twenty-first step on; None: no bound.
        when: A function of the user's that holds a step, or where it is, as "module:function"; None: there is none.
        ring: Steps that are kept whole, the latest: a finding tells of a step that is over. Each is a copy of weights
            and optimizer.
        capsule_on: Rules whose findings have the step saved: from the ring, else the next one.
        pickle: Objects of a batch that are no plain data are kept by pickle, apart from the rest. Without: the capsule
            says that they are missing.
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
        """Whether a step may be held of which all is finite: for how large something is, or what a function says."""
        return self.norm_above is not None or self.loss_above is not None or self.when is not None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data that `recorder_from` reads back."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**found, "when": function_name(self.when) if self.when is not None else None,
                "capsule_on": list(self.capsule_on)}


def function_name(function: HoldsWhen | str) -> str:
    """Return where a function is, as "module:function".

    Example:
        >>> function_name(math.isnan), function_name("checks:too_high")
        ('math:isnan', 'checks:too_high')
    """
    if isinstance(function, str):
        return function
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', None) or '?'}:{getattr(named, '__qualname__', '?')}"


def is_function_name(text: str) -> bool:
    """Return whether a text says where a function is, as "module:function".

    Example:
        >>> is_function_name("checks:steep"), is_function_name("checks.steep")
        (True, False)
    """
    return _FUNCTION.fullmatch(text) is not None


def recorder_from(name: str, value: object) -> RecorderSettings | None:
    """Return how the recorder is set: true, false, or a table as in `[recorder]`.

    Args:
        name: Of the setting, for messages.
        value: What the user wrote.

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
            raise UnknownName(f'"{entry}" is nothing that {name} can set. {nearest(str(entry), known)}')
        _check(f"{name}.{entry}", entry, setting)
    return RecorderSettings(**{**value, **({"capsule_on": names_from(value["capsule_on"])} if "capsule_on" in value
                                           else {})})


def names_from(value: object) -> tuple[str, ...]:
    """Return the names of a list, or of a text with commas.

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
            raise SettingsError(f'{where} is {value!r}; it must be a function, or where one is: "module:function".')
    elif entry == "pickle":
        if not isinstance(value, bool):
            raise SettingsError(f"{where} is {value!r}; it must be true or false.")
    elif entry == "capsule_on":
        names_from(value)
    elif entry in ("at_most", "ring"):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SettingsError(f"{where} is {value!r}; it must be a whole number, and at least 0.")
    elif value is not None and (isinstance(value, bool) or not isinstance(value, int | float)
                                or not 0 < value < math.inf):
        raise SettingsError(f"{where} is {value!r}; it must be a number above 0.")
