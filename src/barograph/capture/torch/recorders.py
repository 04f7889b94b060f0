"""The objects that read tensors of a step, one per kind of record."""

from __future__ import annotations

from dataclasses import dataclass

from barograph.capture.torch.data import DataRecorder
from barograph.capture.torch.facts import FactRecorder
from barograph.capture.torch.losses import LossRecorder
from barograph.capture.torch.outputs import OutputRecorder
from barograph.capture.torch.parameters import ParameterRecorder


@dataclass(frozen=True, slots=True)
class Recorders:
    """Record outputs, parameters, losses, facts and data."""

    outputs: OutputRecorder
    parameters: ParameterRecorder
    losses: LossRecorder
    facts: FactRecorder
    data: DataRecorder

    def plan_changed(self) -> None:
        """Apply changed selections."""
        self.outputs.plan_changed()
        self.losses.plan_changed()
        self.facts.plan_changed()
        self.data.plan_changed()

    def restart(self) -> None:
        """Forget the previous training: another one starts."""
        self.data.restart()
        self.facts.restart()

    def forget_step(self) -> None:
        """Forget the step that has ended."""
        self.parameters.forget_step()
        self.outputs.forget_step()
