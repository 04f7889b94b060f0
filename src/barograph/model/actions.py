"""What may be done about a finding: the names of the actions, and how each is to be done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest


class ActionName(StrEnum):
    """Something that is done in the training because of a finding."""

    STOP = "stop"
    """End the training between two steps."""
    CHECKPOINT_THEN_STOP = "checkpoint-then-stop"
    """Save the model and its optimizers first."""
    LOWER_LR = "lower-lr"
    """Multiply the learning rates; only where the training allows it."""
    SKIP_STEP = "skip-step"
    """Withhold the next updates; only where the training allows it."""
    CAPSULE = "capsule"
    """Save the step that was found, or the next one, whole; only where the flight recorder is on."""


INTERVENTIONS = (ActionName.LOWER_LR, ActionName.SKIP_STEP)
"""Actions that change what a training computes: a script, or whoever starts it, must have allowed them."""


@dataclass(frozen=True, slots=True)
class LowerLr:
    """How learning rates are lowered.

    Attributes:
        factor: What each learning rate is multiplied by.
        at_most: How often in one life of a run.
        floor: No learning rate is made lower than this.
    """

    factor: float = 0.5
    at_most: int = 3
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class SkipStep:
    """How steps are skipped.

    Attributes:
        steps: How many updates are withheld for one finding.
        at_most: How often in one life of a run.
    """

    steps: int = 1
    at_most: int = 10


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """How actions are done.

    Attributes:
        lower_lr: See `LowerLr`.
        skip_step: See `SkipStep`.
    """

    lower_lr: LowerLr = field(default_factory=LowerLr)
    skip_step: SkipStep = field(default_factory=SkipStep)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data that `action_settings_from_mapping` reads back."""
        return {
            ActionName.LOWER_LR.value: {item.name: getattr(self.lower_lr, item.name) for item in fields(LowerLr)},
            ActionName.SKIP_STEP.value: {item.name: getattr(self.skip_step, item.name) for item in fields(SkipStep)},
        }


def actions_from(name: str, value: object, known: Iterable[ActionName] = tuple(ActionName)) -> tuple[ActionName, ...]:
    """Return the actions that a list, or a text with commas, names, each once.

    Args:
        name: Of the setting, for messages.
        value: What the user wrote; "lower_lr" is "lower-lr".
        known: Those there are to choose from.

    Raises:
        UnknownName: There is no such action.
        SettingsError: It is no list of texts.

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
    """Return how actions are done, as a table of tables says: `[action_settings.lower-lr]`.

    Raises:
        UnknownName: An action that has no settings, or a setting that it has not.
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
            raise UnknownName(f'"{name}" is no action that has settings. {nearest(entry, INTERVENTIONS)}')
        if not isinstance(table, Mapping):
            raise SettingsError(f"action_settings.{name} must be a table, as in [action_settings.{entry}].")
        kind: type[LowerLr] | type[SkipStep] = LowerLr if entry == ActionName.LOWER_LR else SkipStep
        parts[entry.replace("-", "_")] = kind(**_checked(f"action_settings.{entry}", table, kind))
    return ActionSettings(**parts)


def _checked(where: str, table: Mapping[str, Any], kind: type[LowerLr] | type[SkipStep]) -> dict[str, Any]:
    known = [item.name for item in fields(kind)]
    for name, value in table.items():
        if name not in known:
            raise UnknownName(f'"{name}" is nothing that {where} can set. {nearest(name, known)}')
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(f"{where}.{name} is {value!r}; it must be a number.")
        if name == "factor":
            if not 0 < value < 1:
                raise SettingsError(f"{where}.factor is {value:g}; it must be above 0 and below 1.")
        elif name == "floor":
            if not 0 <= value < float("inf"):
                raise SettingsError(f"{where}.floor is {value:g}; it must be at least 0 and finite.")
        elif not isinstance(value, int) or value < 1:
            raise SettingsError(f"{where}.{name} is {value!r}; it must be a whole number, at least 1.")
    return dict(table)
