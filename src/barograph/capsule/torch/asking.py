"""Calls the user's function for a replayed step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.utils import clip_grad
from torch.utils._python_dispatch import _disable_current_modes as aside

from barograph.capsule.order import OwnResult, ReplayOrder
from barograph.capsule.own_function import result_of
from barograph.capsule.torch.wrapping import wrap
from barograph.capture.torch.clipping import BeforeClip
from barograph.capture.torch.gate import update_seen
from barograph.capture.torch.names import ModelNames, ParameterName
from barograph.capture.torch.optimizer_entry import Entry, slot_of
from barograph.model.capsule import CapsuleHead
from barograph.model.recorder import UpdateSeen


class Asking:
    """Measures a step as the gate does: with gradient norms before clipping.

    Args:
        order: Names the function.
        head: Head of the capsule.
        names: Names of the models.
    """

    def __init__(self, order: ReplayOrder, head: CapsuleHead, names: ModelNames) -> None:
        self._order = order
        self._head = head
        self._names = names
        self._clips = BeforeClip(keeps_norms=True)
        self._first_root = 0

    def install(self) -> None:
        """Measure gradients before the script clips them, from now on."""
        wrap(clip_grad, "_clip_grads_with_norm_", self._clip_with_norm)
        for holder in (clip_grad, torch.nn.utils):
            wrap(holder, "clip_grad_value_", self._clip_value)

    def restart(self, roots: int) -> None:
        """Note that a closure is called: each call is measured separately.

        Args:
            roots: Number of losses before it.
        """
        self._first_root = roots
        self._clips.forget()

    def seen(self, entry: Entry, optimizer: Any, roots: Sequence[torch.Tensor]) -> UpdateSeen:
        """Return the measurements of the running step, right before its update.

        Args:
            entry: Entry of the optimizer.
            optimizer: The optimizer.
            roots: Roots of backward passes.
        """
        return update_seen(entry.slots, roots[self._first_root:], step=self._head.step, optimizer=entry.label,
                           scale=getattr(optimizer, "grad_scale", None), clips=self._clips)

    def answer(self, seen: UpdateSeen) -> OwnResult | None:
        """Return the answer of the user's function for a step; None if there is no function."""
        if not self._order.when:
            return None
        with aside():
            return result_of(self._order.when, seen, trusts=self._order.trusts)

    def _clip_with_norm(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        parameters, rest = self._looked_at(args, kwargs, by_value=False)
        return original(parameters, *rest, **kwargs)

    def _clip_value(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        parameters, rest = self._looked_at(args, kwargs, by_value=True)
        return original(parameters, *rest, **kwargs)

    def _looked_at(self, args: Any, kwargs: dict[str, Any], *, by_value: bool) -> tuple[list[torch.Tensor], Any]:
        """Measure the parameters that are about to be clipped; return them and the other arguments."""
        handed = args[0] if args else kwargs.pop("parameters")
        parameters = [handed] if isinstance(handed, torch.Tensor) else list(handed)
        named = ((item, self._names.parameter(item) or ParameterName(None, "", "")) for item in parameters)
        with aside():
            self._clips.look([slot_of(item, name, self._names) for item, name in named], by_value=by_value)
        return parameters, args[1:]
