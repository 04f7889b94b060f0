"""Why a step is held, including the user's own conditions."""

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
    """Why a step is held.

    Attributes:
        held: The kind of reason.
        text: In one sentence.
        numbers: What was measured.
    """

    held: Held
    text: str
    numbers: dict[str, float] = field(default_factory=dict)


def of_gradients(paths: Sequence[str], numbers: Mapping[str, float]) -> Verdict:
    """Return the verdict on a step in which the gradients of some parameters are not finite.

    Example:
        >>> of_gradients(["a", "b", "c", "d"], {}).text
        'The gradient of a, b, c and 1 more is not finite.'
    """
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return Verdict(Held.NOT_FINITE, f"The gradient of {', '.join(paths[:_NAMED])}{more} is not finite.",
                   {**numbers, "parameters": float(len(paths))})


def of_loss(loss: float, numbers: Mapping[str, float]) -> Verdict:
    """Return the verdict on a step of which the loss alone is not finite."""
    return Verdict(Held.NOT_FINITE, f"The loss is {loss}, and the gradients are finite.", dict(numbers))


def of_norm(norm: float, bound: float, numbers: Mapping[str, float]) -> Verdict:
    """Return the verdict on a step whose gradients are beyond the bound."""
    return Verdict(Held.NORM, f"The norm of all gradients is {significant(norm, 4)}, above the bound "
                              f"{significant(bound, 4)}.", {**numbers, "bound": bound})


class AskedFor:
    """Holds steps on the user's conditions: a loss above its level, or a function of the user.

    Args:
        settings: How far a loss may leap; the function.
        end: Ends the training, with a sentence, where the function is not to be found: what it was to hold would pass
            unseen. None: that is raised.
    """

    def __init__(self, settings: RecorderSettings, end: Callable[[str], None] | None = None) -> None:
        self._settings = settings
        self._end = end
        self._levels: dict[str, LossLevel] = {}
        self._function: HoldsWhen | None = None

    def verdict(self, seen: UpdateSeen, numbers: Mapping[str, float]) -> Verdict | None:
        """Return why a step is to be held; None where it may pass.

        Args:
            seen: What is known of it.
            numbers: What was measured.

        Raises:
            SettingsError: The function is not where the settings say.
            Exception: Whatever it raises.
        """
        verdict = self._leaps(seen, numbers)
        if verdict is not None or self._settings.when is None:
            return verdict
        if self._function is None:
            self._function = self._found(self._settings.when)
        said = self._function(seen)
        if not said:
            return None
        name = function_name(self._settings.when)
        text = said.strip().rstrip(".") if isinstance(said, str) else f"The function {name} held the step"
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
        """Return the verdict on a loss far above its level; one that is held does not move the level."""
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
    """Return the function that "module:function" names; the script's own module is `__main__`.

    Args:
        place: It, or the function itself.
        setting: That names it, for messages.

    Raises:
        SettingsError: There is none.
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
    except Exception as error:  # a module of the user's may raise anything
        kind = type(error).__name__
        raise SettingsError(f'{setting} is "{place}", but importing its module failed: {kind}: {error}.') from error
    if not callable(found):
        raise SettingsError(f'{setting} is "{place}", which is not a function.')
    function: HoldsWhen = found
    return function
