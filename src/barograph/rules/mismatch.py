"""The rule about outputs and targets that do not suit the loss function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.baseline import BINARY_LOSSES, SOFTMAX_LOSSES
from barograph.rules.clues import fact_value
from barograph.rules.frameworks import either
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView


class Mismatch(NamedTuple):
    """One way in which outputs and targets do not suit the loss function.

    Attributes:
        name: Fact that shows it.
        above: Threshold of the fact.
        what: One sentence. `{share}` and `{value}` are replaced by the fact's value, `{softmax}` by what the loss
            applies.
        remedy: What to do, likewise.
        cause: Suspected cause.
        weight: Weight of the suspicion.
        severity: Severity of the finding.
    """

    name: Fact
    above: float
    what: str
    remedy: str
    cause: Cause
    weight: float = 0.9
    severity: Severity = Severity.COSTLY


MISMATCHES: tuple[Mismatch, ...] = (
    Mismatch(Fact.SOFTMAX_TWICE, 0.0,
             "{Softmax} is applied twice: once by the model, once by the loss.",
             "Remove the {softmax} at the end of the model: the loss expects logits.",
             Cause.SOFTMAX_TWICE),
    Mismatch(Fact.PROBABILITIES_AS_LOGITS, 0.98,
             "{share} of the outputs that the loss takes as logits are probabilities: non-negative, with sum 1.",
             "Remove the {softmax} at the end of the model: the loss expects logits.",
             Cause.SOFTMAX_TWICE, 0.85),
    Mismatch(Fact.SOFTMAX_AXIS, 0.0,
             "The softmax before the loss runs over the samples of the batch, not over the classes.",
             "Use cross_entropy on the logits, or name the class axis: softmax(outputs, dim=1).",
             Cause.SOFTMAX_WRONG_AXIS),
    Mismatch(Fact.LOGITS_AS_PROBABILITIES, 0.5,
             "{share} of the rows that the loss takes as (log-)probabilities do not sum to 1.",
             either(torch="Use the loss that takes logits, cross_entropy, or end the model with a log_softmax",
                    keras="Set from_logits=True in the loss, or end the model with a softmax",
                    jax="Use a loss that takes logits, or end the model with a softmax") + ".",
             Cause.LOGITS_AS_PROBABILITIES),
    Mismatch(Fact.BROADCAST, 1.5,
             "The loss runs over {value} times as many elements as the model returned: outputs and targets of "
             "different shapes were broadcast.",
             "Give both the same shape: targets[:, None] for outputs of (N, 1) and targets of (N,).",
             Cause.BROADCAST_TARGETS),
    Mismatch(Fact.CLASS_NUMBERS_REGRESSED, 0.0,
             "The targets of a regression loss are small integers that repeat: they look like class labels.",
             "If they are classes, give the model one output per class and use cross_entropy: class 3 is not closer to "
             "4 than to 9.",
             Cause.WRONG_LOSS, 0.75, Severity.DOUBTFUL),
)
"""Each is its own subject, named like its fact."""


_APPLIED = {"softmax": SOFTMAX_LOSSES, "sigmoid": BINARY_LOSSES}
"""Activations, mapped to the losses that apply them to logits."""

_SEEN_FROM = {Fact.PROBABILITIES_AS_LOGITS: Fact.SOFTMAX_TWICE, Fact.LOGITS_AS_PROBABILITIES: Fact.SOFTMAX_AXIS}
"""Facts about the values passed to the loss, mapped to the facts that explain them."""


@dataclass(frozen=True, kw_only=True)
class LossMismatch(Rule):
    """D108: The loss function gets the wrong inputs: probabilities for logits, other shapes, class labels.

    What it sees: facts about the graph of the loss and about its inputs. Each problem is its own finding: a softmax
      before a loss that applies one, a softmax over the samples, probabilities where logits are expected and vice
      versa, outputs and targets broadcast to more elements than the model returned, and regression on class labels.
    Why it matters: nothing fails. The loss is a number and even falls, but the model learns slowly, or learns something
      else.
    What to do: see the finding. In short: pass logits and class labels to cross_entropy, and two tensors of one shape
      to regression losses.
    When it is wrong: integer targets that are real quantities (counts, ratings), reported as doubtful. Broadcasting on
      purpose. Outputs may look like probabilities by chance, so nearly all rows must do so.
    Tested on: silent on 19 small healthy trainings, including a GAN, a policy gradient, Q-learning and batches of one
      (one seed each). Softmax applied twice, softmax over the samples, regression on class labels and broadcast targets
      fire at step 1 or 2.
    Source: the PyTorch reference of CrossEntropyLoss, NLLLoss, BCEWithLogitsLoss and MSELoss, on expected inputs.
    """

    code: ClassVar[str] = "D108"
    name: ClassVar[str] = "loss-mismatch"
    severity: ClassVar[Severity] = Severity.COSTLY

    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Alternatives: which of them can be known depends on the loss.
        return (Selection(kinds=frozenset({Kind.FACT}), include=tuple(f"{item.name.value}*" for item in MISMATCHES),
                          schedule=Schedule(every=50, steps=frozenset(range(5)), modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = {item.name: value for item in MISMATCHES if (value := fact_value(view, item.name)) is not None}
        if not found:
            yield Unjudged("no step recorded facts about the loss function's inputs")
            return
        for item in MISMATCHES:
            value = found.get(item.name, 0.0)
            if value <= item.above:
                continue
            if item.name in _SEEN_FROM and found.get(_SEEN_FROM[item.name]):
                # The same problem, found from its other side.
                continue
            losses = {key.path for key in view.scalars(Kind.LOSS)}
            applied = " or ".join(name for name, known in _APPLIED.items() if losses & known) or "softmax"
            words = {"share": percent(min(value, 1.0)), "value": number(value), "softmax": applied,
                     "Softmax": applied.capitalize()}
            what, remedy = item.what.format(**words), item.remedy.format(**words)
            yield Symptom(
                message=what, remedy=remedy,
                evidence=(Evidence(fact(item.name), view.step.number, item.name.value, value, item.above, what),),
                subject=item.name.value, severity=item.severity,
                causes=(Suspicion(item.cause, item.weight, what, remedy),),
            )
