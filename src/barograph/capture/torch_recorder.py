"""The flight recorder: keeps the step under way, looks at it before the update, and holds and saves one that fails."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from barograph.capture.torch_capsule import content_of
from barograph.capture.torch_closure import ClosureStep, closure_of, with_closure
from barograph.capture.torch_door import Door, entry_point, in_backward, in_transform
from barograph.capture.torch_gate import Gate, Verdict
from barograph.capture.torch_kept import Keeper, Kept, loss_value
from barograph.capture.torch_names import ModelNames, Root
from barograph.capture.torch_optimizers import Entry, OptimizerBook
from barograph.capture.torch_packing import Packer
from barograph.capture.torch_sharing import Share, sharing
from barograph.model.capsule import CapsuleHead, Held
from barograph.model.recorder import STOP, RecorderSettings

_LEAST_SCALE = 1.0
"""Gradients that are not finite at this scale or below are so by themselves."""


class TorchRecorder:
    """Holds the update of a step that fails.

    Args:
        door: The way into training. Its session writes capsules and is asked to stop.
        names: The models.
        optimizers: Of the script.
        settings: What is held, and what is done then.

    Attributes:
        door: See above.
        holds: The update of the step under way is to be withheld.
    """

    def __init__(
        self, door: Door, names: ModelNames, optimizers: OptimizerBook, settings: RecorderSettings
    ) -> None:
        self.door = door
        self.holds = False
        self._session = door.session
        self._names = names
        self._optimizers = optimizers
        self._settings = settings
        self._gate = Gate(settings)
        self._held = 0
        self._keeper = Keeper(names)
        self._closure: ClosureStep | None = None
        self._clipped: list[torch.Tensor] = []

    @property
    def kept(self) -> Kept:
        """What is kept of the step under way."""
        return self._keeper.kept

    @entry_point("keeping a batch")
    def batch_came(self, batch: Any) -> None:
        """Keep what a loader gave."""
        self._keeper.batch_came(batch)

    def forward_begins(self, root: Root) -> None:
        """Keep how everything stands before a model is called in training."""
        self._keeper.forward_begins(root)

    @entry_point("keeping what a model was called with")
    def forward_ended(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Keep what a model was called with in training."""
        if not in_backward():
            self._keeper.forward_ended(module, args, kwargs)

    @entry_point("keeping what a loss function was called with")
    def loss_returned(self, name: str, args: Any, kwargs: Any) -> None:
        """Keep what a loss function was called with."""
        if torch.is_grad_enabled() and not (in_backward() or in_transform()):
            self._keeper.loss_returned(name, args, kwargs)

    @entry_point("keeping the loss")
    def backward_begins(self, tensors: Any) -> None:
        """Keep what a backward pass starts from."""
        if not in_backward():
            self._keeper.backward_begins(tensors, (parameter for parameter, _ in self._names.trainable()))

    def take_held(self) -> bool:
        """Return whether the update under way is to be withheld; that is asked once."""
        held, self.holds = self.holds, False
        return held

    def before_update(
        self, entry: Entry, optimizer: Any, *, closure: bool, scaler: Any, schedulers: Iterable[Any]
    ) -> None:
        """Look at the gradients that an optimizer is about to use; save the step where they are not fit.

        Args:
            entry: Of the optimizer.
            optimizer: It.
            closure: It computes its gradients within its step.
            scaler: Of gradients; None where there is none.
            schedulers: Those that have stepped.
        """
        if closure:
            self._closure = ClosureStep(entry, optimizer, scaler, list(schedulers))
            self._closure.copy()
            self._keeper.closure_begins(self._closure.weights)
            return
        if self._scaler_skips(optimizer):
            self.scaler_skipped(entry, scaler, schedulers)
            return
        verdict = self._gate.looks(entry.slots, self._losses_from(0), clipped=self._norm_before_clip(),
                                   share=self._sharing(entry))
        if verdict is not None:
            self._hold(verdict, entry, scaler, schedulers)
            self.holds = True

    def around_closure(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments of the step that begins, with a closure that is looked at; None: it has none."""
        closure = closure_of(args, kwargs) if self._closure is not None else None
        if closure is None:
            return None

        def watched() -> Any:
            result = closure()
            self._closure_called()
            return result

        return with_closure(args, kwargs, functools.wraps(closure)(watched))

    @entry_point("looking at what a closure has computed")
    def _closure_called(self) -> None:
        """Look at gradients of a step with a closure; save it the first time that they are not fit."""
        step = self._closure
        if step is None or step.held:
            return
        verdict = self._gate.looks(step.entry.slots, self._losses_from(step.looked_at),
                                   clipped=self._norm_before_clip(), share=self._sharing(step.entry))
        step.looked_at = len(self.kept.roots)
        if verdict is not None:
            step.held = True
            with step.as_before():
                self._hold(verdict, step.entry, step.scaler, step.schedulers)

    def undo_closure(self) -> bool:
        """Put back what a held step with a closure has moved; return whether there was one."""
        step, self._closure = self._closure, None
        if step is None or not step.held:
            return False
        step.undo()
        return True

    def clipped(self, total_norm: torch.Tensor) -> None:
        """Keep the norm that clipping has measured: what is clipped has none beyond its bound."""
        if self._settings.norm_above is not None:
            self._clipped.append(total_norm.detach())

    def scaler_skipped(self, entry: Entry, scaler: Any, schedulers: Iterable[Any]) -> None:
        """Save a step that a gradient scaler has skipped, where its scale can be no reason any more."""
        scale = float(scaler.get_scale()) if scaler is not None else math.inf
        if scale <= _LEAST_SCALE:
            self._hold(Verdict(Held.SCALE, f"The gradient scaler has lowered its scale to {scale:.4g}, and the "
                               "gradients are not finite all the same.", {"scale": scale}), entry, scaler, schedulers)

    def _sharing(self, entry: Entry) -> Share | None:
        modules = [root.module() for root in self.kept.models.values()]
        return sharing(modules, [slot.parameter for slot in entry.slots])

    def _losses_from(self, first: int) -> list[float]:
        return [loss_value(root) for root in self.kept.roots[first:] if root.device.type == "cpu"]

    def _norm_before_clip(self) -> float:
        return max(map(float, self._clipped), default=0.0)

    def _hold(self, verdict: Verdict, entry: Entry, scaler: Any, schedulers: Iterable[Any]) -> None:
        """Save a step, and stop the training or say so."""
        place = self._save(verdict, entry, scaler, schedulers)
        self._held += 1
        text = f"{verdict.text} The update of step {self._session.made(entry.label)} was withheld{place}"
        if self._settings.then == STOP or self._held > self._settings.at_most:
            self._session.request_stop(text)
        else:
            self._session.guard.report(text.removesuffix("."))

    @entry_point("letting go of a step")
    def step_ended(self, optimizer: Any) -> None:
        """Let go of the step of an optimizer."""
        self._clipped.clear()
        label = self._optimizers.entry(optimizer, refresh=False).label
        self._keeper.step_ended(label, alone=self._optimizers.alone() is not None)

    @staticmethod
    def _scaler_skips(optimizer: Any) -> bool:
        """Return whether a gradient scaler has left it to a fused optimizer to skip this step: that is no failure."""
        found_inf = getattr(optimizer, "found_inf", None)
        return found_inf is not None and bool(found_inf)

    def _save(self, verdict: Verdict, entry: Entry, scaler: Any, schedulers: Iterable[Any]) -> str:
        """Write a capsule; return where, as the end of a sentence. An error of ours never lets the update pass."""
        session = self._session
        if session.write_capsule is None:
            return "; no capsule was saved: nothing here knows how."
        packer = Packer(keeps_apart=True, takes_shards=True)
        try:
            with torch.no_grad():
                others = self._keeper.others_since(entry.label)
                content = content_of(self.kept, others, self._names, self._optimizers, entry, packer, scaler=scaler,
                                     schedulers=list(schedulers), rank=session.rank)
            pickled = pickle.dumps(packer.apart) if packer.apart and self._settings.pickle else None
            head = CapsuleHead(
                session.attempt, "", session.tick, session.made(entry.label), entry.label, verdict.held, verdict.text,
                session.clock.unix(), numbers=verdict.numbers,
            )
            place = session.write_capsule(head, content, packer.tensors, pickled)
        except Exception as error:  # noqa: BLE001 - a batch may be anything; what cannot be saved is withheld all the same
            session.guard.caught(error, "saving a capsule")
            return f"; no capsule could be saved: {type(error).__name__}: {error}"
        return f". All that it was made of is in {place}."
