"""How the flight recorder is set: what makes it hold a step, and what it does then."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest

STOP, SKIP = "stop", "skip"


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """How the flight recorder works; a step whose gradients are not finite is always held.

    Attributes:
        then: "stop": the training is stopped; "skip": the update is withheld and the training goes on.
        at_most: Steps held with "skip" before the training is stopped all the same.
        norm_above: Norm of all gradients of an optimizer beyond which a step is held; None: no bound.
        loss_above: Spreads that the loss may lie above its level; None: no bound.
        pickle: Objects of a batch that are no plain data are kept by pickle, apart from the rest. Without: the capsule
            says that they are missing.
    """

    then: str = STOP
    at_most: int = 10
    norm_above: float | None = None
    loss_above: float | None = None
    pickle: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data that `recorder_from` reads back."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


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
    return RecorderSettings(**value)


def _check(where: str, entry: str, value: object) -> None:
    if entry == "then":
        if value not in (STOP, SKIP):
            raise UnknownName(f'{where} is "{value}". {nearest(str(value), (STOP, SKIP))}')
    elif entry == "pickle":
        if not isinstance(value, bool):
            raise SettingsError(f"{where} is {value!r}; it must be true or false.")
    elif entry == "at_most":
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SettingsError(f"{where} is {value!r}; it must be a whole number, and at least 0.")
    elif value is not None and (isinstance(value, bool) or not isinstance(value, int | float)
                                or not 0 < value < math.inf):
        raise SettingsError(f"{where} is {value!r}; it must be a number above 0.")
