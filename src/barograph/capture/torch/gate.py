"""The gate before an update: checks whether the gradients are acceptable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from barograph.capture.torch.clipping import BeforeClip
from barograph.capture.torch.norms import fetched, is_finite, stacked_norms, wide
from barograph.capture.torch.optimizer_entry import Slot
from barograph.capture.torch.read import plainly_finite
from barograph.capture.torch.shards import part_of
from barograph.capture.torch.sharing import Share
from barograph.capture.verdict import UserConditions, Verdict, of_gradients, of_loss, of_norm
from barograph.model.capsule import ANOTHER_WORKER, Held
from barograph.model.recorder import RecorderSettings, UpdateSeen

_GRAVE = 1024.0
"""Value that a worker sends to the others for a non-finite step; 1 for one withheld for another reason."""


class Gate:
    """Checks the gradients of a step before they are used.

    One pass over them, and one wait for a device: the norm of a tensor is non-finite if any element is. In host memory,
    without conditions on finite steps, no norm is computed: they are read once, to check whether they are finite.

    Args:
        settings: Conditions besides non-finite values.
        end: As in `UserConditions`.
    """

    def __init__(self, settings: RecorderSettings, end: Callable[[str], None] | None = None) -> None:
        self._settings = settings
        self._asked_for = UserConditions(settings, end)

    def looks(
        self, slots: Sequence[Slot], losses: Sequence[torch.Tensor], *, step: int = 0, optimizer: str = "",
        scale: torch.Tensor | None = None, clips: BeforeClip | None = None, share: Share | None = None,
    ) -> Verdict | None:
        """Return why a step must be withheld; None if it may pass.

        Args:
            slots: Parameters of the optimizer that is about to step.
            losses: Roots of this step's backward passes.
            step: Step number as the user counts.
            optimizer: Label of the optimizer.
            scale: Scale of the gradients, if a fused optimizer removes it itself; None: none.
            clips: Measurements before clipping; None: not clipped.
            share: Shares the result with the other workers, which withhold the step together; None: there are none.

        Raises:
            SettingsError: The user's function does not exist.
            Exception: The user's function raised it.
        """
        known = [(slot, gradient) for slot in slots if (gradient := slot.gradient) is not None]
        if share is None and not self._settings.may_hold_finite and _is_fit(known, losses, clips):
            return None
        seen = _seen(known, losses, scale, clips)
        update = _update_seen(known, seen, step, optimizer)
        whole = update.norm
        numbers = {"norm": whole, **({"loss": seen.losses[-1]} if losses else {})}
        verdict = self._not_finite(known, seen, clips, numbers)
        asked, error = None, None
        if verdict is None:
            try:
                asked = self._asked_for.verdict(update, numbers)
            except Exception as raised:  # noqa: BLE001 - raised again below, after the workers have agreed
                error = raised
        if share is not None:
            elsewhere, whole = share(_GRAVE if verdict is not None else float(asked is not None), whole)
            if elsewhere >= _GRAVE and verdict is None:
                return Verdict(Held.NOT_FINITE, f"{ANOTHER_WORKER}'s gradients, or its loss, are not finite.", numbers)
            if elsewhere and asked is None:
                asked = Verdict(Held.OWN, f"{ANOTHER_WORKER} holds this step.", dict(numbers))
        if verdict is not None:
            return verdict
        numbers["norm"] = whole
        bound = self._settings.norm_above
        if bound is not None and whole > bound:
            return of_norm(whole, bound, numbers)
        if error is not None:
            raise error
        return asked

    @staticmethod
    def _not_finite(
        known: Sequence[tuple[Slot, torch.Tensor]], seen: _Seen, clips: BeforeClip | None, numbers: dict[str, float]
    ) -> Verdict | None:
        # Squares of finite numbers may overflow: such a norm exceeds every bound, and is not NaN.
        bad = [slot.path for (slot, gradient), norm in zip(known, seen.norms, strict=True)
               if not math.isfinite(norm) and not is_finite(gradient)]
        if bad:
            return of_gradients(bad, numbers)
        lost = clips.lost([slot for slot, _ in known]) if clips is not None else []
        if lost:
            return of_gradients(lost, numbers)
        bad_losses = [loss for loss in seen.losses if not math.isfinite(loss)]
        if bad_losses:
            return of_loss(bad_losses[0], numbers)
        return None


def update_seen(
    slots: Sequence[Slot], losses: Sequence[torch.Tensor], *, step: int, optimizer: str,
    scale: torch.Tensor | None = None, clips: BeforeClip | None = None,
) -> UpdateSeen:
    """Return the measurements of a step for the user's function; arguments as in `Gate.looks`."""
    known = [(slot, gradient) for slot in slots if (gradient := slot.gradient) is not None]
    return _update_seen(known, _seen(known, losses, scale, clips), step, optimizer)


def _update_seen(known: Sequence[tuple[Slot, torch.Tensor]], seen: _Seen, step: int, optimizer: str) -> UpdateSeen:
    by_path = {slot.path: norm for (slot, _), norm in zip(known, seen.before_clip, strict=True)}
    return UpdateSeen(step, optimizer, tuple(seen.losses), math.hypot(*seen.before_clip) if known else 0.0, by_path)


def _is_fit(
    known: Sequence[tuple[Slot, torch.Tensor]], losses: Sequence[torch.Tensor], clips: BeforeClip | None
) -> bool:
    """Return whether a step is acceptable, as far as that is known without waiting."""
    numbers = [root for root in losses if root.numel() == 1]
    return (plainly_finite([*(gradient for _, gradient in known), *numbers])
            and not (clips is not None and clips.lost([slot for slot, _ in known]))
            and (len(numbers) == len(losses)
                 or all(math.isfinite(loss) for loss, in fetched([_mean(root) for root in losses]))))


def _mean(root: torch.Tensor) -> torch.Tensor:
    """Return the root of a backward pass as one number, in a tensor with one axis."""
    return wide(part_of(root)).mean().reshape(1)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Values of a step that were read together.

    Attributes:
        norms: Norm of each gradient.
        before_clip: Norms before clipping.
        losses: Roots of backward passes.
    """

    norms: list[float]
    before_clip: list[float]
    losses: list[float]


def _seen(
    known: Sequence[tuple[Slot, torch.Tensor]], losses: Sequence[torch.Tensor], scale: torch.Tensor | None,
    clips: BeforeClip | None,
) -> _Seen:
    stacked = stacked_norms([gradient for _, gradient in known])
    clipped = clips.norms if clips is not None else []
    rows = fetched([*(norms for _, norms in stacked), *(norms for _, norms in clipped),
                    *(_mean(root) for root in losses),
                    *([] if scale is None else [wide(scale.detach()).reshape(1)])])
    of_stacked, of_clipped = rows[: len(stacked)], rows[len(stacked): len(stacked) + len(clipped)]
    of_losses = [row[0] for row in rows[len(stacked) + len(clipped):][: len(losses)]]
    carried = 1.0 if scale is None else rows[-1][0]
    norms = [0.0] * len(known)
    for (places, _), found in zip(stacked, of_stacked, strict=True):
        for at, norm in zip(places, found, strict=True):
            norms[at] = norm / carried
    before = {identity: norm / carried for (identities, _), found in zip(clipped, of_clipped, strict=True)
              for identity, norm in zip(identities, found, strict=True)}
    return _Seen(norms, [before.get(id(slot.parameter), norm) for (slot, _), norm in zip(known, norms, strict=True)],
                 of_losses)
