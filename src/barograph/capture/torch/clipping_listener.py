"""Records gradients and their norm when the script clips them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from barograph.capture.torch.entry_point import HookState, entry_point
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.light import LightSteps
from barograph.capture.torch.parameters import ParameterRecorder
from barograph.capture.torch.phase import Phase
from barograph.model.key import Key, Kind

if TYPE_CHECKING:
    from barograph.capture.torch.recorder import TorchRecorder

_CLIPPED_NORM = Key(Kind.SCALAR, "gradient_norm_before_clip")


class ClippingListener:
    """Called before and after functions that clip gradients.

    Args:
        hooks: State shared by the hooks.
        phase: The current step.
        parameters: Reads gradients.
        forwards: Determines names.
        light: Collects steps with only numbers.
        recorder: Checks gradients; None: off.

    Attributes:
        hooks: See above.
    """

    def __init__(self, hooks: HookState, phase: Phase, *, parameters: ParameterRecorder, forwards: ForwardRecorder,
                 light: LightSteps, recorder: TorchRecorder | None) -> None:
        self.hooks = hooks
        self._phase = phase
        self._allowance = phase.allowance
        self._parameters = parameters
        self._forwards = forwards
        self._light = light
        self._recorder = recorder

    def before_clip(self, parameters: Any, *, by_value: bool) -> None:
        """Record gradients before the script clips them, and let the recorder check them."""
        if self._recorder is not None:
            self._look_before_clip(parameters, by_value)
        if self._parameters.asks_for_gradients(self._allowance.whole_mask()):
            self._read_before_clip(parameters)

    @entry_point("checking gradients before clipping")
    def _look_before_clip(self, parameters: Any, by_value: bool) -> None:
        self._forwards.settle_names()
        if self._recorder is not None:
            self._recorder.before_clip(parameters, by_value=by_value)

    @entry_point("reading gradients before clipping")
    def _read_before_clip(self, parameters: Any) -> None:
        self._forwards.settle_names()
        self._parameters.before_clip({id(item) for item in parameters}, self._allowance.whole_mask(), self._phase.train)

    def after_clip(self, total_norm: Any) -> None:
        """Record the norm that clipping measured, if reading it does not wait for a device."""
        if self._light.left and type(total_norm) is torch.Tensor and total_norm.is_cpu and not self.hooks.place.busy:
            self._light.take_number(_CLIPPED_NORM, total_norm.item())
        else:
            self._read_norm(total_norm)

    @entry_point("reading the clipped norm")
    def _read_norm(self, total_norm: Any) -> None:
        if isinstance(total_norm, torch.Tensor) and total_norm.device.type == "cpu":
            self._phase.train.scalars[_CLIPPED_NORM] = float(total_norm)
