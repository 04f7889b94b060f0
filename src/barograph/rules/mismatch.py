"""The rule about a loss that is handed what it is not made for."""

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
from barograph.rules.clues import fact_value
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView


class Mismatch(NamedTuple):
    """One way in which a loss is handed what it is not made for.

    Attributes:
        name: Of the fact that tells it.
        above: The fact's value above which it is one.
        what: One sentence; `{share}` and `{value}` stand for the fact's value.
        remedy: What to do.
        cause: Behind it.
        weight: How strongly.
        severity: How bad.
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
             "A softmax or sigmoid goes into a loss that has its own: it is applied twice.",
             "Take the softmax (or sigmoid) at the end of the model away: the loss wants the raw outputs.",
             Cause.SOFTMAX_TWICE),
    Mismatch(Fact.PROBABILITIES_AS_LOGITS, 0.98,
             "{share} of the outputs that the loss takes for logits are probabilities: not negative, and their sum is "
             "one.",
             "Take the softmax (or sigmoid) at the end of the model away: the loss wants the raw outputs.",
             Cause.SOFTMAX_TWICE, 0.85),
    Mismatch(Fact.SOFTMAX_AXIS, 0.0,
             "The softmax of the loss runs over the samples of the batch, not over the classes.",
             "Name the axis of the classes: softmax(outputs, dim=1), or dim=-1; best leave it to cross_entropy.",
             Cause.SOFTMAX_WRONG_AXIS),
    Mismatch(Fact.LOGITS_AS_PROBABILITIES, 0.5,
             "{share} of the rows that the loss takes for (log-)probabilities do not sum to one.",
             "Hand the loss log_softmax(outputs, dim=1), or take cross_entropy, which wants raw outputs (Keras: a last "
             "layer with softmax, or a loss with from_logits=True).",
             Cause.LOGITS_AS_PROBABILITIES),
    Mismatch(Fact.BROADCAST, 1.5,
             "The loss runs over {value} times as many elements as the model gave: outputs and targets of other shapes "
             "were broadcast against each other.",
             "Give both one shape: outputs.squeeze(1) for outputs of (N, 1) and targets of (N,), or "
             "targets.view_as(outputs).",
             Cause.BROADCAST_TARGETS),
    Mismatch(Fact.CLASS_NUMBERS_REGRESSED, 0.0,
             "The targets of a loss over distances are small whole numbers that repeat, as numbers of classes do.",
             "If they are classes, give the model an output for each and take cross_entropy: class 3 is no nearer to 4 "
             "than to 9.",
             Cause.WRONG_LOSS, 0.75, Severity.DOUBTFUL),
)
"""All of them, each a subject of its own, named as the fact."""


_SEEN_FROM = {Fact.PROBABILITIES_AS_LOGITS: Fact.SOFTMAX_TWICE, Fact.LOGITS_AS_PROBABILITIES: Fact.SOFTMAX_AXIS}
"""Facts that are told by what was handed over, to those that tell why."""


@dataclass(frozen=True, kw_only=True)
class LossMismatch(Rule):
    """D108: The loss is handed what it is not made for: probabilities for logits, other shapes, class numbers.

    What it sees: facts about the graph that the loss was made of and about what went into it. Each is a finding of its
      own: a softmax before a loss that has one, a softmax over the samples, rows that are probabilities where logits
      are wanted and the other way round, outputs and targets broadcast against each other to more elements than the
      model gave, and class numbers that are regressed on.
    Why it matters: nothing fails. The loss is a number, it even falls, and the model learns slowly, or something else.
    What to do: as the finding says; in short, hand cross_entropy the raw outputs and class numbers, and distances two
      tensors of one shape.
    When it is wrong: targets that are whole numbers and true quantities (counts, ratings): told as doubtful. A
      broadcast on purpose. Outputs of any model are now and then probabilities by chance; nearly all rows must be.
    Tried on: silent on 19 small healthy trainings, a GAN, a policy, Q-learning and batches of one among them (one seed
      each). Softmax twice, softmax over the samples, class numbers regressed and targets broadcast fire at step 1 or 2.
    Source: the PyTorch reference of CrossEntropyLoss, NLLLoss, BCEWithLogitsLoss and MSELoss, on what they expect.
    """

    code: ClassVar[str] = "D108"
    name: ClassVar[str] = "loss-mismatch"
    severity: ClassVar[Severity] = Severity.COSTLY

    patience: int = parameter(2, "Judged steps in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Alternatives: which of them can be known depends on the loss.
        return (Selection(kinds=frozenset({Kind.FACT}), include=tuple(f"{item.name.value}*" for item in MISMATCHES),
                          schedule=Schedule(every=50, steps=frozenset(range(5)), modes=frozenset({Mode.TRAIN}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        found = {item.name: value for item in MISMATCHES if (value := fact_value(view, item.name)) is not None}
        if not found:
            yield Unjudged("nothing of how the loss was made was recorded in a step")
            return
        for item in MISMATCHES:
            value = found.get(item.name, 0.0)
            if value <= item.above:
                continue
            if item.name in _SEEN_FROM and found.get(_SEEN_FROM[item.name]):
                # The same fault, seen from the other side.
                continue
            what = item.what.format(share=percent(min(value, 1.0)), value=number(value))
            yield Symptom(
                message=what, remedy=item.remedy,
                evidence=(Evidence(fact(item.name), view.step.number, item.name.value, value, item.above, what),),
                subject=item.name.value, severity=item.severity,
                causes=(Suspicion(item.cause, item.weight, what, item.remedy),),
            )
