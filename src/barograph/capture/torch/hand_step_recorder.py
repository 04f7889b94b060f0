"""Records steps that a script makes without an optimizer."""

from __future__ import annotations

from typing import Any

import torch

from barograph.capture.thread_clock import cpu_secs
from barograph.capture.torch.by_hand import HandSteps, each_of, gradients_returned, loss_in
from barograph.capture.torch.entry_point import HookState, entry_point, in_backward, in_transform
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.recorders import Recorders
from barograph.capture.torch.step_bounds import StepBounds


class HandStepRecorder:
    """Checks whether weights have changed since the last backward pass, and records the step if they have.

    Args:
        hooks: State shared by the hooks.
        by_hand: Has the earlier weights.
        optimizers: Optimizers of the script.
        phase: The current step and evaluation.
        recorders: Read tensors.
        forwards: Determines names.
        bounds: Starts and ends steps.
        only: Record only passed models; steps of other tensors are not detected.
        held: The flight recorder is on, which cannot withhold these steps.

    Attributes:
        hooks: See above.
    """

    def __init__(
        self, hooks: HookState, by_hand: HandSteps, optimizers: OptimizerBook, phase: Phase, *, recorders: Recorders,
        forwards: ForwardRecorder, bounds: StepBounds, only: bool, held: bool,
    ) -> None:
        self.hooks = hooks
        self._session = hooks.session
        self._by_hand = by_hand
        self._optimizers = optimizers
        self._phase = phase
        self._allowance = phase.allowance
        self._recorders = recorders
        self._forwards = forwards
        self._bounds = bounds
        self._only = only
        self._held = held

    def backward_begins(self, tensors: Any) -> None:
        """Note the roots of a backward pass."""
        if self._by_hand.watches and not (self._only or self._session.script.explicit_steps):
            self._by_hand.backward_begins(tensors)

    def loss_asked(self, outputs: Any, inputs: Any, grad_outputs: Any) -> torch.Tensor | None:
        """Return the loss whose gradients `torch.autograd.grad` will return; None if no step can follow."""
        session, place, begin = self._session, self.hooks.place, cpu_secs()
        if not self._by_hand.watches or self._only or session.script.explicit_steps or (
                place.busy or session.closed or in_backward() or in_transform()):
            return None
        place.begin_own_work()
        try:
            loss = loss_in(outputs, grad_outputs)
            tensors = [item for item in each_of(inputs) if isinstance(item, torch.Tensor)]
            return loss if loss is not None and self._by_hand.are_weights(tensors) else None
        except Exception as error:  # noqa: BLE001 - the guard handles all our errors
            session.guard.caught(error, "reading the arguments of torch.autograd.grad")
            return None
        finally:
            place.end_own_work()
            session.price.charge(cpu_secs() - begin)

    def is_root(self, loss: torch.Tensor) -> bool:
        """Return whether the last call of `torch.autograd.grad` was for this loss, and no step came after it."""
        return self._by_hand.is_root(loss)

    def note_root(self, loss: torch.Tensor) -> None:
        """Note the loss of `torch.autograd.grad`."""
        self._by_hand.note_root(loss)

    def backward_ended(self, returned: tuple[Any, Any] | None = None) -> None:
        """Expect a step after a backward pass.

        Args:
            returned: Inputs and results of `torch.autograd.grad`; None: it was a backward pass.
        """
        if self._by_hand.watches and not self._session.script.explicit_steps:
            self._expect(returned)

    @entry_point("waiting for a step without an optimizer")
    def _expect(self, pair: tuple[Any, Any] | None) -> None:
        if in_backward():
            return
        returned = None if pair is None else gradients_returned(*pair)
        self._forwards.settle_names()
        more = returned is not None and self._by_hand.waits_with_returned
        if not self._by_hand.backward_ended(returned) or self._allowance.light:
            return
        optimizer, parameters = self._by_hand.optimizer, self._recorders.parameters
        entry = self._optimizers.entry(optimizer)
        mask = self._allowance.for_step_of(entry.label)
        self._recorders.facts.parameters(entry, optimizer, mask)
        parameters.keep_weights(entry, mask, more=more)
        if parameters.asks_for_gradients(mask):
            self._by_hand.keep_gradients(entry.slots, returned)

    def look(self, tensors: Any = None) -> None:
        """Record the step that the script has made without an optimizer since the last backward pass, if any.

        Args:
            tensors: Roots of a backward pass that starts now; None: none starts.
        """
        if self._by_hand.waits and not (self.hooks.place.busy or in_backward()) and (
                self._by_hand.moved() or (tensors is not None and self._by_hand.replaced(tensors))):
            self._take()
            self._session.steering.raise_if_stopped()

    def take_last(self) -> None:
        """Record the last step when the run closes; if there was none at all, report that."""
        if self._by_hand.waits and (self._by_hand.moved() or self._by_hand.replaces):
            self._take()
        backwards = self._phase.backwards
        if backwards and not any(self._session.counts.by_optimizer.values()):
            times = "once" if backwards == 1 else f"{backwards:,} times"
            self._session.seen.reasons["no step"] = (
                f"no training step was recorded: backward() ran {times}, but no optimizer stepped and no weight "
                "changed. Call optimizer.step() after backward(). If your script updates weights in another way, mark "
                "the end of each step: attach(explicit_steps=True), then run.step(loss)")

    def _take(self) -> None:
        optimizer = self._by_hand.optimizer
        self._record(optimizer)
        self._by_hand.took()
        if self._held:
            self._session.seen.reasons["recorder by hand"] = (
                "the flight recorder: the script updates its weights without an optimizer, so no update can be "
                "withheld")
        self._bounds.let_others_follow(optimizer)

    @entry_point("recording a step without an optimizer")
    def _record(self, optimizer: Any) -> None:
        buffer, parameters = self._phase.train, self._recorders.parameters
        entry = self._optimizers.entry(optimizer, refresh=False)
        self._bounds.begin(entry)
        mask = self._allowance.whole_mask()
        try:
            if mask:
                parameters.kept_gradients(entry, self._by_hand.gradient, mask, buffer)
                if self._by_hand.becomes_what_is_now():
                    entry = self._optimizers.entry(optimizer)
                    parameters.weights(entry, optimizer, mask, buffer)
            self._recorders.facts.step_ended(entry, mask)
        finally:
            self._bounds.end(entry, skipped=False)
