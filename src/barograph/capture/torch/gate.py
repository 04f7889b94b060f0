"""The gate before an update: are the gradients that are about to be used fit for it?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from barograph.capture.torch.optimizers import Slot
from barograph.capture.torch.read import local
from barograph.capture.torch.sharing import Share
from barograph.capture.verdict import AskedFor, Verdict, of_gradients, of_loss, of_norm
from barograph.model.capsule import Held
from barograph.model.recorder import RecorderSettings, UpdateSeen

_GRAVE = 1024.0
"""What a worker tells the others of a step that is not finite; of one that it holds otherwise, 1."""


class Gate:
    """Looks at the gradients of a step before they are used.

    One pass over them, and one wait for a device: the norm of a tensor is not finite if any of its elements is not.

    Args:
        settings: What it holds beyond what is not finite.
    """

    def __init__(self, settings: RecorderSettings) -> None:
        self._settings = settings
        self._asked_for = AskedFor(settings)

    def looks(
        self, slots: Sequence[Slot], losses: Sequence[float], *, step: int = 0, optimizer: str = "",
        clipped: float = 0.0, share: Share | None = None,
    ) -> Verdict | None:
        """Return why a step is to be held; None where it may pass.

        Args:
            slots: The parameters of the optimizer that is about to step.
            losses: What backward passes of this step started from, as far as it lies in memory.
            step: As the user counts.
            optimizer: Its label.
            clipped: Norm that clipping has measured before; 0: nothing was clipped.
            share: Tells the other workers of a training, which hold the step together; None: there are none.

        Raises:
            SettingsError: The user's own function is not where the settings say.
            Exception: Whatever that function raises.
        """
        known = [(slot, gradient) for slot in slots if (gradient := slot.gradient) is not None]
        norms = norms_of([gradient for _, gradient in known])
        whole = math.hypot(*norms) if norms else 0.0
        numbers = {"norm": whole, **({"loss": losses[-1]} if losses else {})}
        verdict = self._not_finite(known, norms, losses, numbers)
        asked, error = None, None
        if verdict is None:
            by_path = {slot.path: norm for (slot, _), norm in zip(known, norms, strict=True)}
            try:
                asked = self._asked_for.verdict(UpdateSeen(step, optimizer, tuple(losses), whole, by_path), numbers)
            except Exception as raised:  # noqa: BLE001 - raised below: the other workers wait for what this one says
                error = raised
        whole = max(whole, clipped)
        if share is not None:
            elsewhere, whole = share(_GRAVE if verdict is not None else float(asked is not None), whole)
            if elsewhere >= _GRAVE and verdict is None:
                return Verdict(Held.NOT_FINITE, "Another worker's gradients, or its loss, are not finite.", numbers)
            if elsewhere and asked is None:
                asked = Verdict(Held.OWN, "Another worker holds this step.", dict(numbers))
        if error is not None:
            raise error
        if verdict is not None:
            return verdict
        numbers["norm"] = whole
        bound = self._settings.norm_above
        if bound is not None and whole > bound:
            return of_norm(whole, bound, numbers)
        return asked

    @staticmethod
    def _not_finite(
        known: Sequence[tuple[Slot, torch.Tensor]], norms: Sequence[float], losses: Sequence[float],
        numbers: dict[str, float],
    ) -> Verdict | None:
        # Squares of finite numbers may go beyond the range: a norm like that is beyond every bound, and no NaN.
        bad = [slot.path for (slot, gradient), norm in zip(known, norms, strict=True)
               if not math.isfinite(norm) and not _is_finite(gradient)]
        if bad:
            return of_gradients(bad, numbers)
        bad_losses = [loss for loss in losses if not math.isfinite(loss)]
        if bad_losses:
            return of_loss(bad_losses[0], numbers)
        return None


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
