"""Records losses: roots of `backward`, and results of loss functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from barograph.capture.thread_clock import cpu_secs
from barograph.capture.torch.entry_point import (
    HookState,
    entry_point,
    in_backward,
    in_transform,
    is_readable_number,
)
from barograph.capture.torch.feeding import Feeding
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.hand_step_recorder import HandStepRecorder
from barograph.capture.torch.light import TOTAL, LightSteps
from barograph.capture.torch.loss_arguments import recorded_name
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.recorders import Recorders
from barograph.capture.torch.step_bounds import StepBounds
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.torch.probe import TorchProbe
    from barograph.capture.torch.recorder import TorchRecorder


class LossListener:
    """Is called around `backward` and PyTorch's loss functions.

    Args:
        hooks: State shared by the hooks.
        phase: The current step and evaluation.
        light: Collects steps with only numbers.
        recorders: Read tensors.
        forwards: Observes forward passes.
        feeding: Knows whether checkpoints are saved.
        bounds: Ends steps.
        hand_steps: Detects steps without an optimizer.
        recorder: Keeps inputs of steps; None: off.
        probe: Stores outputs of a layer at evaluations.

    Attributes:
        hooks: See above.
    """

    def __init__(
        self, hooks: HookState, phase: Phase, light: LightSteps, *, recorders: Recorders, forwards: ForwardRecorder,
        feeding: Feeding, bounds: StepBounds, hand_steps: HandStepRecorder, recorder: TorchRecorder | None,
        probe: TorchProbe,
    ) -> None:
        self.hooks = hooks
        self._probe = probe
        self._session = hooks.session
        self._place = hooks.place
        self._phase = phase
        self._allowance = phase.allowance
        self._light = light
        self._losses = recorders.losses
        self._facts = recorders.facts
        self._data = recorders.data
        self._forwards = forwards
        self._feeding = feeding
        self._bounds = bounds
        self._hand_steps = hand_steps
        self._recorder = recorder
        self._time = hooks.session.progress.times.backward

    # Backward passes

    def backward_begins(self, tensors: Any) -> None:
        """Record the roots of a backward pass."""
        self._hand_steps.look(tensors)
        if self._feeding.checkpointer is not None:
            self._feeding.checkpointer.backward_begins(tensors)
        if self._recorder is not None:
            self._recorder.backward_begins(tensors)
        if not (self._allowance.light and self._takes_root(tensors)):
            self._read_roots(tensors)
            self._time.begins()

    def backward_ended(self, returned: tuple[Any, Any] | None = None) -> None:
        """Note that a backward pass has ended.

        Args:
            returned: Inputs and results of `torch.autograd.grad`; None: it was a backward pass.
        """
        if not self._allowance.light:
            self._time.ended()
        self._hand_steps.backward_ended(returned)

    def gradients_asked(self, outputs: Any, inputs: Any, grad_outputs: Any) -> bool:
        """Record `torch.autograd.grad` like a backward pass if a step without an optimizer may follow; else False.

        Calls for the gradients of one loss are one pass: a script may ask for each weight by itself.
        """
        loss = self._hand_steps.loss_asked(outputs, inputs, grad_outputs)
        if loss is None:
            return False
        if not self._hand_steps.is_root(loss):
            self.backward_begins(loss)
            self._hand_steps.note_root(loss)
        elif not self._allowance.light:
            self._time.begins()
        return True

    def gradients_returned(self, inputs: Any, gradients: Any) -> None:
        """Expect a step after `torch.autograd.grad`."""
        self.backward_ended((inputs, gradients))

    def _takes_root(self, loss: Any) -> bool:
        """Record the loss of a step with only numbers; False: it must be inspected fully."""
        light = self._light
        if light.left:
            if (
                type(loss) is torch.Tensor and is_readable_number(loss) and not self._place.busy
                and light.take_loss(TOTAL, loss.item())
            ):
                return True
            light.stop()
        begin, phase, session = cpu_secs(), self._phase, self._session
        try:
            if (
                not self._losses.is_number(loss) or self._place.busy or session.closed or self._forwards.observes_always
                or phase.evaluates or phase.is_provisional or in_backward() or in_transform()
            ):
                return False
            number = loss.item()
            if not math.isfinite(number):
                # The origin of the value must be recorded.
                self._allowance.wake()
                return False
            self._losses.take_number(TOTAL, number)
            phase.light_backward()
            self._facts.miss_backward()
        except Exception as error:  # noqa: BLE001 - the guard handles all our errors
            session.guard.caught(error, "reading the loss")
        session.price.charge(cpu_secs() - begin)
        return True

    @entry_point("reading the loss")
    def _read_roots(self, tensors: Any) -> None:
        self._light.stop()
        if in_backward():
            return
        self._facts.gradients_before_backward()
        if not self._forwards.expects_backward():
            return  # the loss of a model that the script did not pass
        self._place.forget_root()
        self._session.began()
        self._phase.backward_begins()
        self._losses.roots(tensors)
        self._allowance.for_forward()
        self._facts.backward(tensors, self._allowance.whole_mask(), failed=self._allowance.alarmed)
        self._hand_steps.backward_begins(tensors)

    def loss_scaled(self, outputs: Any, scaled: Any) -> None:
        """Remember a loss before its scaling."""
        self._losses.scaled(outputs, scaled)

    # Loss functions

    def takes_loss(self, name: str, loss: Any, args: Any, kwargs: Any) -> bool:
        """Record the result of a loss function in a step with only numbers; False: it must be read."""
        name = recorded_name(name, args, kwargs)
        light = self._light
        if light.left and type(loss) is torch.Tensor and loss.requires_grad:
            if is_readable_number(loss) and not self._place.busy and light.take_loss(name, loss.item()):
                return True
            light.stop()
        if not (self._allowance.light and self._losses.is_number(loss) and loss.requires_grad) or (
                self._recorder is not None or self._place.busy or self._session.closed or self._forwards.observes_always
                or in_backward() or in_transform() or not self._phase.surely_trains):
            return False
        begin = cpu_secs()
        self._losses.take_number(name, loss.item())
        self._session.price.charge(cpu_secs() - begin)
        return True

    def loss_returned(self, name: str, loss: Any, args: Any, kwargs: Any) -> None:
        """Record the result of a PyTorch loss function; always in evaluations, since these are rare."""
        self._hand_steps.look()
        if self._recorder is not None:
            self._recorder.loss_returned(name, args, kwargs)
        self._read_loss(name, loss, args, kwargs)

    @entry_point("reading a loss function's result")
    def _read_loss(self, name: str, loss: Any, args: Any, kwargs: Any) -> None:
        self._light.stop()
        if in_backward() or not isinstance(loss, torch.Tensor) or not loss.is_floating_point() or in_transform():
            return
        if loss.is_meta:
            return  # it has no value
        if self._forwards.observes_always and not self._forwards.seen:
            return
        mode = self._phase.of_loss(loss, forward_seen=self._forwards.observing)
        if mode is not Mode.TRAIN:
            self._facts.evaluated(mode)
            if not self._forwards.observing:
                self._phase.evaluation_calls(None, self._data.loaders.take_evaluated())
            self._phase.note_loss(mode)
            if self._probe.on:
                self._probe.loss_returned(name, args, kwargs)
        buffer = self._phase.buffer_of(mode)
        # Checks that know the usual level of a mean must not use a sum over samples or tokens.
        self._losses.add(recorded_name(name, args, kwargs), loss, buffer)
        mask = self._allowance.for_forward() if mode is Mode.TRAIN else self._phase.evaluation_mask_for(mode)
        if mask:
            self._data.handed(name, args, kwargs, mask, buffer, training=mode is Mode.TRAIN)

    @entry_point("reading the arguments of a loss function that raised")
    def loss_raised(self, name: str, args: Any, kwargs: Any) -> None:
        """Record the labels that a loss function rejected: the step may never end, and they may be the cause."""
        self._light.stop()
        mask = self._allowance.for_forward()
        if mask and torch.is_grad_enabled() and not in_transform():
            self._bounds.note_refused(self._data.refused(name, args, kwargs, mask, self._phase.train))
