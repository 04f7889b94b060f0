"""The parameters and modules of a training, and which of them were recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from barograph.model.key import Kind
from barograph.model.manifest import Coverage

NO_LOSS_OF_TORCH = "none went through `backward` or a PyTorch loss function"


@dataclass(slots=True)
class Seen:
    """Counts the parameters, modules and evaluations of a training, and which of them were recorded.

    Attributes:
        parameters: Number of trainable parameters.
        weights, gradients: Paths of the parameters whose value or gradient was recorded.
        named_parameters, named_modules: Paths that array integrations declared.
        modules: Number of leaf modules.
        outputs: Paths of the leaf modules whose output was recorded.
        loss: A loss was recorded.
        evaluations: Number of finished evaluations.
        reasons: Cause to one sentence on what was not recorded.
        no_loss: Why no loss was recorded.
    """

    parameters: int = 0
    named_parameters: set[str] = field(default_factory=set)
    named_modules: set[str] = field(default_factory=set)
    weights: set[str] = field(default_factory=set)
    gradients: set[str] = field(default_factory=set)
    modules: int = 0
    outputs: set[str] = field(default_factory=set)
    loss: bool = False
    evaluations: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    no_loss: str = NO_LOSS_OF_TORCH

    def note(self, kind: Kind, path: str) -> None:
        """Note that data of this kind was recorded."""
        if kind is Kind.WEIGHT:
            self.weights.add(path)
        elif kind is Kind.GRADIENT:
            self.gradients.add(path)
        elif kind is Kind.OUTPUT:
            layer = path.partition("[")[0]  # a module may return several values
            self.outputs.add(layer if layer in self.named_modules else path)

    def saw_loss(self) -> None:
        """Note that a loss was recorded."""
        self.loss = True

    def evaluation_ended(self) -> None:
        """Count an evaluation."""
        self.evaluations += 1

    def explain_no_loss(self, why: str) -> None:
        """Set the reason why no loss is recorded."""
        self.no_loss = why

    def count_parameters(self, parameters: int) -> None:
        """Set the number of trainable parameters."""
        self.parameters = parameters

    def count_modules(self, modules: int) -> None:
        """Set the number of leaf modules."""
        self.modules = modules

    def declare(self, parameters: Iterable[str], modules: Iterable[str]) -> None:
        """Add parameters and modules; a process may train several models, one after the other.

        Args:
            parameters, modules: Their paths.
        """
        self.named_parameters.update(parameters)
        self.named_modules.update(modules)
        self.parameters, self.modules = len(self.named_parameters), len(self.named_modules)

    def coverage(self, steps: int, recorded: int, why: str) -> Coverage:
        """Return the coverage.

        Args:
            steps: Number of steps.
            recorded: Number of steps with recorded tensors.
            why: Why the other steps were not recorded.
        """
        reasons = list(dict(self.reasons).values())
        if self.parameters > len(self.weights):
            reasons.append(f"{self.parameters - len(self.weights)} of {self.parameters} parameters were never recorded")
        if steps and not self.loss:
            reasons.append(f"no loss was recorded: {self.no_loss}")
        if recorded < steps:
            reasons.append(f"tensors were recorded at {recorded:,} of {steps:,} steps ({why})")
        return Coverage(
            parameters=self.parameters, parameters_seen=len(self.weights), gradients_seen=len(self.gradients),
            modules=self.modules, modules_seen=len(self.outputs), loss_seen=self.loss, steps=steps,
            steps_seen=recorded, evaluations=self.evaluations, reasons=tuple(reasons),
        )
