"""What an integration has met of a training, and what of it was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field

from barograph.model.key import Kind
from barograph.model.manifest import Coverage

NO_LOSS_OF_TORCH = "none went through `backward` or a loss function of torch"


@dataclass(slots=True)
class Seen:
    """What an integration has met and what it has recorded, for the coverage.

    Attributes:
        parameters: Trainable parameters there are.
        weights, gradients: Paths of the parameters whose value, whose gradient was recorded.
        named_parameters, named_modules: Paths of what integrations of arrays have declared.
        modules: Leaf modules there are.
        outputs: Paths of the leaf modules whose output was recorded.
        loss: A loss was recorded.
        evaluations: Evaluations that ended.
        reasons: Cause to one sentence that names it.
        things: What is recorded of a step whose turn it is, for people.
        no_loss: Why no loss was seen, where none was.
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
    things: str = "tensors"
    no_loss: str = NO_LOSS_OF_TORCH

    def note(self, kind: Kind, path: str) -> None:
        """Note that something of this kind was recorded."""
        if kind is Kind.WEIGHT:
            self.weights.add(path)
        elif kind is Kind.GRADIENT:
            self.gradients.add(path)
        elif kind is Kind.OUTPUT:
            layer = path.partition("[")[0]  # one may return several
            self.outputs.add(layer if layer in self.named_modules else path)

    def coverage(self, steps: int, recorded: int, why: str) -> Coverage:
        """Return how much was seen.

        Args:
            steps: That were made.
            recorded: Of them those with tensors.
            why: What has left the others out, for people.
        """
        reasons = list(dict(self.reasons).values())
        if self.parameters > len(self.weights):
            reasons.append(f"{self.parameters - len(self.weights)} of {self.parameters} parameters were never recorded")
        if steps and not self.loss:
            reasons.append(f"no loss was seen: {self.no_loss}")
        if recorded < steps:
            reasons.append(f"{self.things} were recorded at {recorded} of {steps} steps ({why})")
        return Coverage(
            parameters=self.parameters, parameters_seen=len(self.weights), gradients_seen=len(self.gradients),
            modules=self.modules, modules_seen=len(self.outputs), loss_seen=self.loss, steps=steps,
            steps_seen=recorded, evaluations=self.evaluations, reasons=tuple(reasons),
        )
