"""The rule that names where NaN and infinite values came from."""

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
    """N102: NaN or infinite values arose in one module, or in one operation of the loss.

    What it sees: the outputs of modules in the order in which they ran, in the first step that holds anything that
      is not finite. It names the first module whose output is not finite although what ran before is; where layer
      inputs are recorded too, it tells a module from the code between two modules. Where all modules are finite and
      the loss is not, it names the operation (log, exp, division, sqrt) that made it so, if that was looked for.
    Why it matters: N101 says that a run is lost. This says where to look.
    What to do: look at that module: an exponential, a logarithm, a root or a division in it; weights that grew; a
      format too narrow for its values. Clamp what goes in, or add an epsilon inside.
    When it is wrong: infinities that stand in outputs on purpose (attention masks) are passed over, as in N101. Only
      the first step is judged, since afterwards everything is hit; where that step was not recorded with its outputs,
      or the first module is hit already (the batch, or weights that were spoilt before), it says nothing.
    Source: as PyTorch's `detect_anomaly`, which looks at the backward pass alone, from recorded statistics.
    """

    code: ClassVar[str] = "N102"
    name: ClassVar[str] = "non-finite-origin"
    severity: ClassVar[Severity] = Severity.BREAKING

    @property
    def needs(self) -> tuple[Selection, ...]:
        training = frozenset({Mode.TRAIN})
        return (
            Selection(kinds=frozenset({Kind.OUTPUT}), schedule=Schedule(every=5, modes=training)),
            # Together with the loss: operations are named only where there is something to name.
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
                yield Unjudged("no step was recorded with the outputs of its modules")
            return
        if memory.get("hit"):
            yield Unjudged("what was struck first spoilt everything since")
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
                message=f"The {hit} became not finite in an operation of its own: {joined(list(operations))}.",
                remedy=next(iter(operations.values())).remedy, causes=ranked(*operations.values()),
                evidence=tuple(Evidence(fact(Fact.BAD_OPERATION, name), view.step.number, "operation", 1.0, 0.0,
                                        item.why) for name, item in operations.items()),
            )
        else:
            yield Unjudged("the first step that was not finite does not show in which module it became so")

    @staticmethod
    def _remedy(origin: Origin) -> str:
        subject = origin.table.subjects[origin.row]
        if subject.dtype == "float16":
            return f'"{subject.key.path}" is float16, which ends at 65504: use bfloat16, or keep this layer in float32.'
        if origin.place == "between":
            return ("Look at the code between these two for log, sqrt, exp or a division; add an epsilon "
                    "inside, or clamp what goes in.")
        return (f'Look at "{subject.key.path}": what it was fed in that step, and whether its weights have grown; an '
                "exponential, root or division in it wants a clamp or an epsilon.")


def _module_suspicions(origin: Origin) -> list[Suspicion]:
    layer = origin.table.subjects[origin.row].layer
    if origin.place == "between":
        return [Suspicion(cause, weight, "it arose in the code between two modules")
                for cause, weight in USUAL_BY_PLACE["between"]]
    if layer == "Softmax":
        return [Suspicion(Cause.EXP_OVERFLOW, 0.3, f"it arose in a {layer}")]
    return []
