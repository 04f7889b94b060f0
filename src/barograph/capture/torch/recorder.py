"""The flight recorder: keeps the current step, checks it before the update, and saves a failing one."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from barograph.capture.held_steps import HeldSteps, saved
from barograph.capture.orders import NotDone
from barograph.capture.torch.capsule import content_of
from barograph.capture.torch.clipping import BeforeClip
from barograph.capture.torch.closure import ClosureStep, closure_of, with_closure
from barograph.capture.torch.entry_point import HookState, entry_point, in_backward, in_transform
from barograph.capture.torch.gate import Gate
from barograph.capture.torch.kept import Keeper, Kept, loss_value
from barograph.capture.torch.names import ModelNames, ParameterName, Root
from barograph.capture.torch.optimizer_entry import Entry, slot_of
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.packing import Packer
from barograph.capture.torch.recomputation import gets_gradients
from barograph.capture.torch.ring import Ring, Taken
from barograph.capture.torch.sharing import Share, sharing
from barograph.capture.verdict import Verdict
from barograph.model.actions import ActionName
from barograph.model.capsule import CapsuleHead, Held
from barograph.model.recorder import RecorderSettings, function_name
from barograph.runs.state.control import Request

_Take = Callable[[Held, str, Mapping[str, float]], Taken]

if TYPE_CHECKING:
    from barograph.capture.torch.loader_pass import MadeOf

_LEAST_SCALE = 1.0
"""Gradients that are non-finite at this scale or below are so without scaling."""


class TorchRecorder:
    """Withholds the update of a failing step.

    Args:
        hooks: State shared by the hooks. Its session writes capsules and stops the training.
        names: The models.
        optimizers: Optimizers of the script.
        settings: Which steps to withhold, and what to do then.

    Attributes:
        hooks: See above.
        holds: The update of the current step must be withheld.
    """

    def __init__(
        self, hooks: HookState, names: ModelNames, optimizers: OptimizerBook, settings: RecorderSettings
    ) -> None:
        self.hooks = hooks
        self.holds = False
        self._session = hooks.session
        self._names = names
        self._optimizers = optimizers
        self._settings = settings
        self._gate = Gate(settings, self._session.steering.request_stop)
        self._held = HeldSteps(self._session, settings)
        self._keeper = Keeper(names)
        self._ring = Ring(settings.ring)
        self._wanted: list[Request] = []
        self._saved: dict[int, str] = {}
        self._session.steering.set_handler(ActionName.CAPSULE, self.asked, always=True)
        self._closure: ClosureStep | None = None
        self._clips = BeforeClip(keeps_norms=settings.norm_above is not None or settings.when is not None)

    @property
    def kept(self) -> Kept:
        """Inputs and state of the current step."""
        return self._keeper.kept

    @entry_point("copying a batch")
    def batch_came(self, batch: Any, made_of: MadeOf | None) -> None:
        """Keep a batch from a loader, and its samples if known."""
        self._keeper.batch_came(batch, made_of)

    def forward_begins(self, root: Root) -> None:
        """Keep the state before a model is called in training."""
        self._keeper.forward_begins(root)

    @entry_point("copying a model's inputs")
    def forward_ended(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Keep the arguments of a model's call in training."""
        if not in_backward():
            self._keeper.forward_ended(module, args, kwargs)

    @entry_point("copying a loss function's arguments")
    def loss_returned(self, name: str, args: Any, kwargs: Any) -> None:
        """Keep the arguments of a loss function."""
        if gets_gradients() and not (in_backward() or in_transform()):
            self._keeper.loss_returned(name, args, kwargs)

    @entry_point("copying the loss")
    def backward_begins(self, tensors: Any) -> None:
        """Keep the roots of a backward pass."""
        if not in_backward():
            self._keeper.backward_begins(tensors)

    def take_held(self) -> bool:
        """Return whether to withhold the current update; asked once."""
        held, self.holds = self.holds, False
        return held

    def before_update(
        self, entry: Entry, optimizer: Any, *, closure: bool, scaler: Any, schedulers: Iterable[Any]
    ) -> None:
        """Check the gradients that an optimizer will use; save the step if they are not acceptable.

        Args:
            entry: Entry of the optimizer.
            optimizer: The optimizer.
            closure: It computes its gradients within its step.
            scaler: Gradient scaler; None: there is none.
            schedulers: Schedulers that have stepped.
        """
        if closure:
            self._closure = ClosureStep(entry, optimizer, scaler, list(schedulers))
            self._closure.copy()
            self._keeper.closure_begins(self._closure.weights)
            for request in self._due(entry.label):
                why = "the optimizer computes its gradients in a closure"
                self._session.steering.report(request, f"did nothing: {why}", done=False)
            return
        if self._scaler_skips(optimizer):
            self.scaler_skipped(entry, scaler, schedulers)
            return
        verdict = self._looks(entry, 0)
        take = functools.partial(self._take, entry, scaler, list(schedulers))
        if verdict is not None:
            self._hold(verdict, entry.label, take)
            self.holds = True
        elif self._wanted or self._ring:
            self._pass(entry.label, take)

    def around_closure(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments of the step that starts, with a checked closure; None: it has none."""
        closure = closure_of(args, kwargs) if self._closure is not None else None
        if closure is None:
            return None

        def watched() -> Any:
            result = closure()
            self._closure_called()
            return result

        return with_closure(args, kwargs, functools.wraps(closure)(watched))

    @entry_point("checking a closure's gradients")
    def _closure_called(self) -> None:
        """Check gradients of a step with a closure; save the step the first time they are not acceptable."""
        step = self._closure
        if step is None or step.held:
            return
        verdict = self._looks(step.entry, step.looked_at)
        step.looked_at = len(self.kept.roots)
        if verdict is not None:
            step.held = True
            with step.as_before():
                self._hold(verdict, step.entry.label,
                           functools.partial(self._take, step.entry, step.scaler, step.schedulers))

    def undo_closure(self) -> bool:
        """Revert the changes of a withheld step with a closure; return whether there was one."""
        step, self._closure = self._closure, None
        if step is None or not step.held:
            return False
        step.undo()
        return True

    def before_clip(self, parameters: Iterable[torch.Tensor], *, by_value: bool) -> None:
        """Check gradients before they are clipped: afterwards their norm is bounded."""
        named = ((item, self._names.parameter(item) or ParameterName(None, "", "")) for item in parameters)
        self._clips.look([slot_of(item, name, self._names) for item, name in named], by_value=by_value)

    def scaler_skipped(self, entry: Entry, scaler: Any, schedulers: Iterable[Any]) -> None:
        """Save a step that a gradient scaler skipped, unless its scale may be the reason."""
        scale = float(scaler.get_scale()) if scaler is not None else math.inf
        if scale <= _LEAST_SCALE:
            self._hold(Verdict(Held.SCALE, f"The gradient scaler lowered its scale to {scale:.4g}, but the "
                               "gradients are still not finite.", {"scale": scale}), entry.label,
                       functools.partial(self._take, entry, scaler, list(schedulers)))

    def _looks(self, entry: Entry, first_root: int) -> Verdict | None:
        return self._gate.looks(
            entry.slots, self.kept.roots[first_root:], step=self._session.counts.made(entry.label),
            optimizer=entry.label, scale=getattr(entry.optimizer(), "grad_scale", None), clips=self._clips,
            share=self._sharing(entry))

    def _sharing(self, entry: Entry) -> Share | None:
        modules = [root.module() for root in self.kept.models.values()]
        return sharing(modules, entry.slots)

    def asked(self, request: Request) -> str | None:
        """Save the step of a finding from the ring, or the next one of its optimizer, which is reported later.

        Raises:
            NotDone: The maximum number of steps has been saved.
        """
        if len(self._saved) >= self._settings.at_most:
            raise NotDone(f"{self._settings.at_most} steps were already saved for findings (recorder.at_most)")
        # The step where the fault started, if it is still available; else the one where it was detected.
        steps = [int(request.options[name]) for name in ("since", "step") if name in request.options]
        taken = next((found for step in steps if (found := self._ring.find(step, request.optimizer))), None)
        if taken is None:
            self._wanted.append(request)
            return None
        taken = replace(taken, head=replace(taken.head, text=request.reason))
        return f"saved step {taken.head.step}{self._write_once(taken)}"

    def _hold(self, verdict: Verdict, label: str, take: _Take) -> None:
        """Save a step and withhold its update. An error of ours never lets the update pass."""
        self._held.hold(verdict, self._session.counts.made(label),
                        lambda: self._write(take(verdict.held, verdict.text, verdict.numbers)))

    def _pass(self, label: str, take: _Take) -> None:
        """Keep a passing step, and save it if a finding requested the next one."""
        due = self._due(label)
        text = due[0].reason if due else ""
        last = self.kept.roots[-1] if self.kept.roots else None
        in_memory = last is not None and last.device.type == "cpu"  # avoids waiting for a device
        taken = take(Held.FINDING, text, {"loss": loss_value(last)} if last is not None and in_memory else {})
        if self._ring:
            self._ring.keep(taken)
        for request in due:
            self._session.steering.report(request, f"saved step {taken.head.step}{self._write_once(taken)}")

    def _due(self, label: str) -> list[Request]:
        """Return the requests for the next step of an optimizer, each once."""
        due = [request for request in self._wanted if request.optimizer in ("", label)]
        self._wanted = [request for request in self._wanted if request not in due]
        return due

    def _take(
        self, entry: Entry, scaler: Any, schedulers: Sequence[Any], held: Held, text: str, numbers: Mapping[str, float]
    ) -> Taken:
        """Return the complete current step."""
        session = self._session
        # Data that is written at once need not be copied: nothing changes meanwhile.
        packer = Packer(keeps_apart=True, takes_shards=True, copies=held is Held.FINDING)
        with torch.no_grad():
            others = self._keeper.others_since(entry.label)
            content = content_of(self.kept, others, self._names, self._optimizers, entry, packer, scaler=scaler,
                                 schedulers=schedulers, rank=session.worker.rank)
        content["when"] = None if self._settings.when is None else function_name(self._settings.when)
        head = CapsuleHead(
            session.worker.attempt, "", session.counts.tick, session.counts.made(entry.label), entry.label, held, text,
            session.clock.unix(), withheld=held is not Held.FINDING, numbers=numbers,
        )
        return Taken(head, content, packer)

    def _write_once(self, taken: Taken) -> str:
        """Write a step of a finding, unless it is written already; return where, as the end of a sentence."""
        if taken.head.tick not in self._saved:
            self._saved[taken.head.tick] = self._write(taken)
        return self._saved[taken.head.tick]

    def _write(self, taken: Taken) -> str:
        """Write a capsule; return where, as the end of a sentence."""
        apart = taken.packer.apart if self._settings.pickle else None
        return saved(self._session, taken.head, taken.content, taken.packer.tensors,
                     pickle.dumps(apart) if apart else None)

    @entry_point("releasing a step")
    def step_ended(self, optimizer: Any) -> None:
        """Release the step of an optimizer."""
        self._clips.forget()
        label = self._optimizers.entry(optimizer, refresh=False).label
        self._keeper.step_ended(label, alone=self._optimizers.alone() is not None)

    def forget(self) -> None:
        """Release everything: the training has been stopped."""
        self._clips.forget()
        self._keeper = Keeper(self._names)

    @staticmethod
    def _scaler_skips(optimizer: Any) -> bool:
        """Return whether a gradient scaler has a fused optimizer skip this step: that is no failure."""
        found_inf = getattr(optimizer, "found_inf", None)
        return found_inf is not None and bool(found_inf)
