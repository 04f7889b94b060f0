"""The actions a finding can trigger, and their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest


class ActionName(StrEnum):
    """An action in the training process that a finding triggers."""

    STOP = "stop"
    """Stop the training between two steps."""
    CHECKPOINT_THEN_STOP = "checkpoint-then-stop"
    """Save the model and its optimizers first."""
    LOWER_LR = "lower-lr"
    """Multiply the learning rates; only where the training allows it."""
    SKIP_STEP = "skip-step"
    """Withhold the next updates; only where the training allows it."""
    CAPSULE = "capsule"
    """Save a capsule of the step that the finding is about, or of the next one; needs the flight recorder."""


INTERVENTIONS = (ActionName.LOWER_LR, ActionName.SKIP_STEP)
"""Actions that change what a training computes. The script or the user must allow them."""


@dataclass(frozen=True, slots=True)
class LowerLr:
    """Settings of the action lower-lr.

    Attributes:
        factor: Each learning rate is multiplied by it.
        at_most: How often in one attempt of a run.
        floor: Learning rates are never set lower than this.
    """

    factor: float = 0.5
    at_most: int = 3
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class SkipStep:
    """Settings of the action skip-step.

    Attributes:
        steps: Updates skipped for one finding.
        at_most: How often in one attempt of a run.
    """

    steps: int = 1
    at_most: int = 10


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """Settings of all actions.

    Attributes:
        lower_lr: See `LowerLr`.
        skip_step: See `SkipStep`.
    """

    lower_lr: LowerLr = field(default_factory=LowerLr)
    skip_step: SkipStep = field(default_factory=SkipStep)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data that `action_settings_from_mapping` reads back."""
        return {
            ActionName.LOWER_LR.value: {item.name: getattr(self.lower_lr, item.name) for item in fields(LowerLr)},
            ActionName.SKIP_STEP.value: {item.name: getattr(self.skip_step, item.name) for item in fields(SkipStep)},
        }


def actions_from(name: str, value: object, known: Iterable[ActionName] = tuple(ActionName)) -> tuple[ActionName, ...]:
    """Return the actions named in a list or in a comma-separated string, each once.

    Args:
        name: Name of the setting, for messages.
        value: Value from the user; "lower_lr" is "lower-lr".
        known: The valid actions.

    Raises:
        UnknownName: There is no such action.
        SettingsError: The value is not a list of strings.

    Example:
        >>> [str(item) for item in actions_from("actions", ["stop", "lower_lr"])]
        ['stop', 'lower-lr']
    """
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple | set | frozenset) or not all(isinstance(word, str) for word in words):
        raise SettingsError(f'{name} is {value!r}; it must be a list of actions, as in ["stop"].')
    names = [word.strip().replace("_", "-") for word in words if word.strip()]
    choices = tuple(known)
    for word in names:
        if word not in choices:
            raise UnknownName(f'{name}: there is no action "{word}". {nearest(word, choices)}')
    ordered = names if isinstance(words, list | tuple) else sorted(names)
    return tuple(dict.fromkeys(ActionName(word) for word in ordered))


def action_settings_from_mapping(data: object) -> ActionSettings:
    """Return the action settings in a table of tables such as `[action_settings.lower-lr]`.

    Raises:
        UnknownName: The action has no settings, or none of this name.
        SettingsError: A value has the wrong type or is out of range.

    Example:
        >>> action_settings_from_mapping({"lower-lr": {"factor": 0.1}}).lower_lr.factor
        0.1
    """
    if not isinstance(data, Mapping):
        raise SettingsError("action_settings must be tables, as in [action_settings.lower-lr].")
    parts: dict[str, Any] = {}
    for name, table in data.items():
        entry = str(name).replace("_", "-")
        if entry not in INTERVENTIONS:
            raise UnknownName(f'"{name}" is not an action with settings. {nearest(entry, INTERVENTIONS)}')
        if not isinstance(table, Mapping):
            raise SettingsError(f"action_settings.{name} must be a table, as in [action_settings.{entry}].")
        kind: type[LowerLr] | type[SkipStep] = LowerLr if entry == ActionName.LOWER_LR else SkipStep
        parts[entry.replace("-", "_")] = kind(**_checked(f"action_settings.{entry}", table, kind))
    return ActionSettings(**parts)


def _checked(where: str, table: Mapping[str, Any], kind: type[LowerLr] | type[SkipStep]) -> dict[str, Any]:
    known = [item.name for item in fields(kind)]
    for name, value in table.items():
        if name not in known:
            raise UnknownName(f'"{name}" is not a setting of {where}. {nearest(name, known)}')
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(f"{where}.{name} is {value!r}; it must be a number.")
        if name == "factor":
            if not 0 < value < 1:
                raise SettingsError(f"{where}.factor is {value:g}; it must be above 0 and below 1.")
        elif name == "floor":
            if not 0 <= value < float("inf"):
                raise SettingsError(f"{where}.floor is {value:g}; it must be at least 0 and finite.")
        elif not isinstance(value, int) or value < 1:
            raise SettingsError(f"{where}.{name} is {value!r}; it must be an integer, at least 1.")
    return dict(table)
