"""The rule that locates the origin of NaN and infinite values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.columns import table_of
from barograph.rules.nonfinite_causes import USUAL_BY_PLACE, narrow_suspicion
from barograph.rules.operations import operations_of
from barograph.rules.origin import MODULES, ORDER, Origin, any_bad, bad_rows, origin_of, was_fed_well
from barograph.rules.suspects import ranked
from barograph.rules.words import joined
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class NonFiniteOrigin(Rule):
    """N102: NaN or infinite values arose in a module, or in an operation of the loss.

    What it sees: the outputs of modules, in execution order, in the first step with non-finite values. The rule names
      the first module whose output is not finite although all earlier outputs are. If layer inputs are recorded too, it
      distinguishes a module from the code between two modules. If all modules are finite and the loss is not, it names
      the operation (log, exp, division, sqrt) that caused it, if capture looked for one.
    Why it matters: N101 reports that a run is lost. This rule says where to look.
    What to do: check that module for an exponential, a logarithm, a root or a division; for weights that grew; for a
      number format too narrow for its values. Clamp the input, or add an epsilon.
    When it is wrong: infinities in outputs on purpose (attention masks) are ignored, as in N101. The rule evaluates
      only the first step, because later steps are non-finite everywhere. It stays silent if that step was recorded
      without outputs, or if the first module is already affected (by the batch, or by weights damaged earlier).
    Source: like PyTorch's `detect_anomaly`, which checks only the backward pass, but from recorded statistics.
    """

    code: ClassVar[str] = "N102"
    name: ClassVar[str] = "non-finite-origin"
    severity: ClassVar[Severity] = Severity.BREAKING

    @property
    def needs(self) -> tuple[Selection, ...]:
        training = frozenset({Mode.TRAIN})
        return (
            Selection(kinds=frozenset({Kind.OUTPUT}), schedule=Schedule(every=5, modes=training)),
            # With the loss, because operations are recorded only if one fails.
            Selection(kinds=frozenset({Kind.LOSS, Kind.FACT}), include=("total", f"{Fact.BAD_OPERATION}*"),
                      schedule=Schedule(modes=training)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        tables = {kind: table_of(view, kind) for kind in ORDER}
        is_bad = any_bad(view, tables, only_nan=False)
        operations = operations_of(view)
        if not operations and not is_bad:
            memory["hit"] = False
            if not len(tables[Kind.OUTPUT]):
                yield Unjudged("no step recorded module outputs")
            return
        if memory.get("hit"):
            yield Unjudged("all values since the first failure are affected")
            return
        memory["hit"] = True
        bad = bad_rows(view, tables, only_nan=False)
        origin = origin_of(tables, bad, fed_well=was_fed_well(view)) if is_bad else None
        if origin is not None and origin.place in MODULES:
            yield Symptom(
                message=f"{origin.text}.", remedy=self._remedy(origin),
                evidence=(origin.evidence(view.step.number),),
                causes=ranked(*operations.values(), narrow_suspicion(origin), *_module_suspicions(origin)),
            )
        elif operations:
            hit = "gradient" if origin is not None and origin.place == "gradient" else "loss"
            operations = operations_of(view, loss_is_finite=hit == "gradient")
            yield Symptom(
                message=f"The {hit} is not finite because of an operation in it: {joined(list(operations))}.",
                remedy=next(iter(operations.values())).remedy, causes=ranked(*operations.values()),
                evidence=tuple(Evidence(fact(Fact.BAD_OPERATION, name), view.step.number, "operation", 1.0, 0.0,
                                        item.why) for name, item in operations.items()),
            )
        else:
            yield Unjudged("the first non-finite step does not show which module caused it")

    @staticmethod
    def _remedy(origin: Origin) -> str:
        subject = origin.table.subjects[origin.row]
        if subject.dtype == "float16":
            return (f'"{subject.key.path}" is float16, whose largest value is 65504: use bfloat16, or keep this layer '
                    "in float32.")
        if origin.place == "between":
            return ("Check the code between these two for log, sqrt, exp or a division; add an epsilon, "
                    "or clamp the input.")
        return (f'Check the input of "{subject.key.path}" in that step, and whether its weights have grown; add a '
                "clamp or an epsilon to an exponential, root or division in it.")


def _module_suspicions(origin: Origin) -> list[Suspicion]:
    layer = origin.table.subjects[origin.row].layer
    if origin.place == "between":
        return [Suspicion(cause, weight, "it arose in the code between two modules")
                for cause, weight in USUAL_BY_PLACE["between"]]
    if layer == "Softmax":
        return [Suspicion(Cause.EXP_OVERFLOW, 0.3, f"it arose in a {layer}")]
    return []
