"""Records the steps that a gradient scaler skips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barograph.capture.torch.entry_point import HookState, entry_point
from barograph.capture.torch.facts import FactRecorder
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.light import LightSteps
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.step_bounds import StepBounds
from barograph.capture.torch.stepping import Stepping

if TYPE_CHECKING:
    from barograph.capture.torch.recorder import TorchRecorder


class ScalerListener:
    """Is called around `GradScaler.step`.

    Args:
        hooks: State shared by the hooks.
        optimizers: Optimizers of the script.
        stepping: Knows whether the scaler made the optimizer step.
        bounds: Ends steps.
        facts: Has the scaler and the schedulers.
        forwards: Knows which optimizers train recorded models.
        light: Collects steps with only numbers.
        recorder: Checks steps; None: off.

    Attributes:
        hooks: See above.
    """

    def __init__(
        self, hooks: HookState, optimizers: OptimizerBook, stepping: Stepping, *, bounds: StepBounds,
        facts: FactRecorder,
        forwards: ForwardRecorder, light: LightSteps, recorder: TorchRecorder | None,
    ) -> None:
        self.hooks = hooks
        self._optimizers = optimizers
        self._stepping = stepping
        self._bounds = bounds
        self._facts = facts
        self._forwards = forwards
        self._light = light
        self._recorder = recorder

    def scaler_step_begins(self, scaler: Any, optimizer: Any) -> None:
        """Note that the optimizer steps through a gradient scaler."""
        self._light.stop()
        self._facts.scaled_by(scaler)
        self._stepping.scaler_begins(self._stepping.behind(optimizer))

    def scaler_step_ended(self, scaler: Any, optimizer: Any) -> None:
        """Record a step that the scaler skipped: no hook of the optimizer was called."""
        session = self.hooks.session
        optimizer = self._stepping.behind(optimizer)
        if (self._stepping.scaler_skipped(optimizer) and scaler.is_enabled()
                and not session.script.explicit_steps):
            if self._recorder is not None:
                self._look_at_skipped(scaler, optimizer)
            self._end_skipped(optimizer)
            if self._recorder is not None:
                self._recorder.step_ended(optimizer)
            session.steering.raise_if_stopped()

    @entry_point("checking a skipped step")
    def _look_at_skipped(self, scaler: Any, optimizer: Any) -> None:
        if self._recorder is not None and not self._forwards.trains_unknown_model(optimizer):
            self._forwards.settle_names()
            self._recorder.scaler_skipped(self._optimizers.entry(optimizer), scaler, self._facts.schedulers)

    @entry_point("recording a skipped step")
    def _end_skipped(self, optimizer: Any) -> None:
        if not self._forwards.trains_unknown_model(optimizer):
            self._forwards.settle_names()
            # Its gradients are not checked and its weights have not changed: due records are made at the next step.
            self._facts.step_ended(self._optimizers.entry(optimizer), 0, skipped=True)
            self._bounds.end(self._optimizers.entry(optimizer), skipped=True, took=False)
