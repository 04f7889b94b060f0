"""The gate before an update: are the gradients that are about to be used fit for it?"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from barograph.capture.loss_level import LossLevel
from barograph.capture.torch_optimizers import Slot
from barograph.capture.torch_read import local
from barograph.errors import SettingsError
from barograph.model.capsule import Held
from barograph.model.recorder import HoldsWhen, RecorderSettings, UpdateSeen, function_name

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


class Gate:
    """Looks at the gradients of a step before they are used.

    One pass over them, and one wait for a device: the norm of a tensor is not finite if any of its elements is not.

    Args:
        settings: What it holds beyond what is not finite.
    """

    def __init__(self, settings: RecorderSettings) -> None:
        self._settings = settings
        self._levels: dict[str, LossLevel] = {}
        self._when: HoldsWhen | None = None

    def looks(
        self, slots: Sequence[Slot], losses: Sequence[float], *, step: int = 0, optimizer: str = ""
    ) -> Verdict | None:
        """Return why a step is to be held; None where it may pass.

        Args:
            slots: The parameters of the optimizer that is about to step.
            losses: What backward passes of this step started from, as far as it lies in memory.
            step: As the user counts.
            optimizer: Its label.

        Raises:
            SettingsError: The user's own function is not where the settings say.
            Exception: Whatever that function raises.
        """
        known = [(slot, gradient) for slot in slots if (gradient := slot.parameter.grad) is not None]
        norms = norms_of([gradient for _, gradient in known])
        whole = math.hypot(*norms) if norms else 0.0
        numbers = {"norm": whole, **({"loss": losses[-1]} if losses else {})}
        if not math.isfinite(whole):
            bad = [slot.path for (slot, gradient), norm in zip(known, norms, strict=True)
                   if not math.isfinite(norm) and not _is_finite(gradient)]
            if bad:
                numbers["parameters"] = float(len(bad))
                return Verdict(Held.NOT_FINITE, f"The gradient of {_listed(bad)} is not finite.", numbers)
            # Squares of finite numbers went beyond the range: a norm like that is beyond every bound.
        bad_losses = [loss for loss in losses if not math.isfinite(loss)]
        if bad_losses:
            return Verdict(Held.NOT_FINITE, f"The loss is {bad_losses[0]}, and the gradients are finite.", numbers)
        bound = self._settings.norm_above
        if bound is not None and whole > bound:
            return Verdict(Held.NORM, f"The norm of all gradients is {whole:.4g}, beyond the bound of {bound:.4g}.",
                           {**numbers, "bound": bound})
        if self._settings.loss_above is not None and losses:
            verdict = self._leaps(sum(losses), optimizer, self._settings.loss_above, numbers)
            if verdict is not None:
                return verdict
        if self._settings.when is not None:
            by_path = {slot.path: norm for (slot, _), norm in zip(known, norms, strict=True)}
            return self._own(UpdateSeen(step, optimizer, tuple(losses), whole, by_path), self._settings.when, numbers)
        return None

    def _leaps(self, loss: float, optimizer: str, spreads: float, numbers: Mapping[str, float]) -> Verdict | None:
        """Return the verdict on a loss far above its level; one that is held does not move the level."""
        level = self._levels.setdefault(optimizer, LossLevel())
        bound = level.bound(spreads)
        if loss > bound:
            return Verdict(Held.LOSS, f"The loss is {loss:.4g}, more than {spreads:g} spreads above its level "
                                      f"({bound:.4g}).", {**numbers, "loss": loss, "bound": bound})
        level.take_in(loss)
        return None

    def _own(self, seen: UpdateSeen, when: HoldsWhen | str, numbers: Mapping[str, float]) -> Verdict | None:
        if self._when is None:
            self._when = _function_at(when) if isinstance(when, str) else when
        said = self._when(seen)
        if not said:
            return None
        text = said.strip().rstrip(".") if isinstance(said, str) else f"The function {function_name(when)} holds it"
        return Verdict(Held.OWN, f"{text}.", dict(numbers))


def _function_at(place: str) -> HoldsWhen:
    """Return the function that "module:function" names; the script's own module is `__main__`.

    Raises:
        SettingsError: There is none.
    """
    module, _, name = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f'recorder.when is "{place}", and that cannot be found: {error}.') from error
    if not callable(found):
        raise SettingsError(f'recorder.when is "{place}", and that is no function.')
    function: HoldsWhen = found
    return function


def norms_of(gradients: Sequence[torch.Tensor]) -> list[float]:
    """Return the L2 norm of each gradient, NaN or infinite where an element is; one wait for each device."""
    values = [_values(gradient) for gradient in gradients]
    by_device: dict[torch.device, list[int]] = {}
    for number, item in enumerate(values):
        by_device.setdefault(item.device, []).append(number)
    found = [0.0] * len(values)
    for numbers in by_device.values():
        norms = torch.stack([norm.double() if norm.device.type != "mps" else norm.float()
                             for norm in torch._foreach_norm([values[number] for number in numbers])])
        for number, norm in zip(numbers, norms.tolist(), strict=True):
            found[number] = norm
    return found


def _values(gradient: torch.Tensor) -> torch.Tensor:
    """Return the elements that a gradient holds: of a sparse one those that are stored, of a split one this part's."""
    item = local(gradient).detach()
    if item.layout is torch.sparse_coo:
        item = item._values()
    elif item.layout is not torch.strided:
        item = item.to_dense()
    # Squares of what float16 holds go beyond it: summed as float32 they do not.
    return item.float() if item.dtype is torch.float16 else item


def _is_finite(gradient: torch.Tensor) -> bool:
    values = _values(gradient)
    if not values.numel():
        return True
    low, high = torch.aminmax(torch.view_as_real(values) if values.is_complex() else values)
    return math.isfinite(float(low)) and math.isfinite(float(high))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
