"""Why a step's update is withheld, including the user's own conditions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barograph.capture.loss_level import LossLevel
from barograph.errors import SettingsError
from barograph.model.capsule import Held
from barograph.model.recorder import HoldsWhen, RecorderSettings, UpdateSeen, function_name
from barograph.model.significant import significant

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a step's update is withheld.

    Attributes:
        held: Kind of reason.
        text: The reason in one sentence.
        numbers: Measured numbers.
    """

    held: Held
    text: str
    numbers: dict[str, float] = field(default_factory=dict)


def of_gradients(paths: Sequence[str], numbers: Mapping[str, float]) -> Verdict:
    """Return the verdict on a step with non-finite gradients of some parameters.

    Example:
        >>> of_gradients(["a", "b", "c", "d"], {}).text
        'The gradient of a, b, c and 1 more is not finite.'
    """
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return Verdict(Held.NOT_FINITE, f"The gradient of {', '.join(paths[:_NAMED])}{more} is not finite.",
                   {**numbers, "parameters": float(len(paths))})


def of_loss(loss: float, numbers: Mapping[str, float]) -> Verdict:
    """Return the verdict on a step in which only the loss is non-finite."""
    return Verdict(Held.NOT_FINITE, f"The loss is {loss}, and the gradients are finite.", dict(numbers))


def of_norm(norm: float, bound: float, numbers: Mapping[str, float]) -> Verdict:
    """Return the verdict on a step whose gradient norm exceeds the bound."""
    return Verdict(Held.NORM, f"The norm of all gradients is {significant(norm, 4)}, above the bound "
                              f"{significant(bound, 4)}.", {**numbers, "bound": bound})


class UserConditions:
    """Checks the user's conditions: a loss above its level, or a function of the user.

    Args:
        settings: Limit of the loss, and the function.
        end: Ends the training with a message if the function cannot be found, because it could not check steps.
            None: the error is raised.
    """

    def __init__(self, settings: RecorderSettings, end: Callable[[str], None] | None = None) -> None:
        self._settings = settings
        self._end = end
        self._levels: dict[str, LossLevel] = {}
        self._function: HoldsWhen | None = None

    def verdict(self, seen: UpdateSeen, numbers: Mapping[str, float]) -> Verdict | None:
        """Return why a step must be withheld; None if it may pass.

        Args:
            seen: Measurements of the step.
            numbers: Measured numbers.

        Raises:
            SettingsError: The function does not exist.
            Exception: The function raised it.
        """
        verdict = self._leaps(seen, numbers)
        if verdict is not None or self._settings.when is None:
            return verdict
        if self._function is None:
            self._function = self._found(self._settings.when)
        result = self._function(seen)
        if not result:
            return None
        name = function_name(self._settings.when)
        text = result.strip().rstrip(".") if isinstance(result, str) else f"The function {name} held the step"
        return Verdict(Held.OWN, f"{text}.", dict(numbers))

    def _found(self, place: HoldsWhen | str) -> HoldsWhen:
        try:
            return function_at(place)
        except SettingsError as error:
            if self._end is None:
                raise
            self._end(f"{error} Barograph imports it from the folder of the script.")
            return lambda _: None

    def _leaps(self, seen: UpdateSeen, numbers: Mapping[str, float]) -> Verdict | None:
        """Return the verdict on a loss far above its level; a withheld loss does not change the level."""
        spreads = self._settings.loss_above
        if spreads is None or not seen.losses:
            return None
        loss, level = sum(seen.losses), self._levels.setdefault(seen.optimizer, LossLevel())
        bound = level.bound(spreads)
        if loss > bound:
            return Verdict(Held.LOSS, f"The loss is {significant(loss, 4)}, more than {spreads:g} spreads above its "
                                      f"level ({significant(bound, 4)}).", {**numbers, "loss": loss, "bound": bound})
        level.take_in(loss)
        return None


def function_at(place: HoldsWhen | str, setting: str = "recorder.when") -> HoldsWhen:
    """Return the function named by "module:function"; the script's own module is `__main__`.

    Args:
        place: The name, or the function itself.
        setting: Name of the setting, for messages.

    Raises:
        SettingsError: It does not exist.
    """
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f'{setting} is "{place}", which cannot be imported: {error}.') from error
    except Exception as error:  # a user's module may raise anything
        kind = type(error).__name__
        raise SettingsError(f'{setting} is "{place}", but importing its module failed: {kind}: {error}.') from error
    if not callable(found):
        raise SettingsError(f'{setting} is "{place}", which is not a function.')
    function: HoldsWhen = found
    return function
