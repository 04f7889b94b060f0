"""Rules about numbers that are no numbers: that there are any, and where they came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind, layer_path
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import Table, learning_rate, stated_loss, table_of
from barograph.rules.nonfinite_causes import GREW, causes_of, was_fed_badly
from barograph.rules.odd_batches import follow_batches, odd_batch_behind
from barograph.rules.origin import (
    MODULES,
    ORDER,
    Flags,
    Origin,
    any_bad,
    bad_rows,
    evidence_of,
    origin_of,
    plural,
    was_fed_well,
)
from barograph.rules.suspects import recurrent
from barograph.rules.words import joined, lower_rate, number, sentence
from barograph.runs.view import StepView


@dataclass(frozen=True, kw_only=True)
class NonFinite(Rule):
    """N101: A tensor holds NaN or infinite values.

    What it sees: the counts of NaN, +inf and −inf in every loss, layer output, gradient and weight. It says
      which of these was hit first in the step (a step computes outputs, then losses, gradients and weights). Where
      it is a module in the midst of others, N102 says which, and this rule says what else is hit. A batch that reached
      ten times beyond all before it, at most 20 steps ago, is held to be behind it.
    Why it matters: NaN spreads. After one update every weight is NaN, and all training from there on is lost.
    What to do: the finding says what was hit first, and what by the history of this run is behind it. Usual cures:
      a lower learning rate, warm-up, clipping; bfloat16 or float32 in place of float16; a loss that takes logits;
      an epsilon inside log, sqrt and division; taking the bad sample out of the batch.
    When it is wrong: infinities alone in layer inputs and outputs are no fault while loss, gradients and
      weights stay finite (attention masks are −inf on purpose), nor are gradients in a step that a gradient
      scaler skipped. Where outputs are not recorded in every step, the origin is that of the first recorded
      step; the finding says how many steps lie unseen before it.
    Tried on: silent on all 145 healthy trainings, with masked attention and bfloat16 among them. A batch of NaN is
      named in its step.
    Source: Amazon SageMaker Debugger's ExplodingTensor.
    """

    code: ClassVar[str] = "N101"
    name: ClassVar[str] = "non-finite"
    severity: ClassVar[Severity] = Severity.BREAKING

    kinds: tuple[str, ...] = parameter(
        ("loss", "output", "gradient", "weight"), "Kinds of record that are looked at.",
        choices=(kind.value for kind in ORDER),
    )
    only_nan: bool = parameter(False, "Look for NaN alone, and let infinities pass.")

    @property
    def needs(self) -> tuple[Selection, ...]:
        sparse = Schedule(every=5, modes=frozenset({Mode.TRAIN}))
        return tuple(
            Selection(kinds=frozenset({Kind(kind)}), schedule=Schedule() if kind == Kind.LOSS else sparse)
            for kind in self.kinds
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        tables = {kind: table_of(view, kind) for kind in ORDER if kind in self.kinds}
        if view.step.mode is Mode.TRAIN:
            follow_batches(view, memory)
        if not any_bad(view, tables, only_nan=self.only_nan):
            _remember(view, memory)
            return
        if view.step.mode is not Mode.TRAIN and memory.get("training_is_hit"):
            yield Unjudged("training is hit already, and evaluation with it")
            return
        memory["training_is_hit"] = view.step.mode is Mode.TRAIN
        bad = bad_rows(view, tables, only_nan=self.only_nan)
        if Kind.INPUT not in tables:
            # They help to find the origin even where they are not asked for.
            tables[Kind.INPUT] = table_of(view, Kind.INPUT)
            bad[Kind.INPUT] = tables[Kind.INPUT].column("nan") + tables[Kind.INPUT].infinite > 0
        origin = origin_of(tables, bad, fed_well=was_fed_well(view))
        what = origin.text if origin.place not in MODULES else _hit_in_words(tables, bad)
        yield Symptom(
            message=f"{what}{_unseen_before(view, memory)}.",
            remedy=_remedy(origin, view, memory),
            evidence=(origin.evidence(view.step.number), *_others_hit(origin, tables, bad, view.step.number)),
            causes=causes_of(origin, view, memory),
        )


def _remember(view: StepView, memory: Memory) -> None:
    if view.step.mode is Mode.TRAIN:
        memory["training_is_hit"] = False
    gradients = table_of(view, Kind.GRADIENT)
    if len(table_of(view, Kind.OUTPUT)) or len(gradients):
        memory["finite_step"] = view.step.number
    if len(gradients) and view.step.mode is Mode.TRAIN:
        norm = gradients.norm
        # What training begins with may be large; what it came down to says whether it grew since.
        memory["last_norm"], memory["least_norm"] = norm, min(norm, memory.get("least_norm", norm))
        memory["recurrent"] = memory.get("recurrent", False) or recurrent(gradients.layers.classes)
    found = stated_loss(view)
    if found is not None and view.step.mode is Mode.TRAIN:
        memory["last_loss"], memory["last_loss_step"] = found[1], view.step.number
        memory["least_loss"] = min(found[1], memory.get("least_loss", found[1]))


def _unseen_before(view: StepView, memory: Memory) -> str:
    last = memory.get("finite_step")
    if last is None or view.step.number - last <= 1:
        return ""
    first, end = last + 1, view.step.number - 1
    steps = f"step {first} was" if first == end else f"steps {first} to {end} were"
    return f" ({steps} not recorded; it may have begun there)"


def _hit_in_words(tables: Mapping[Kind, Table], bad: Mapping[Kind, Flags]) -> str:
    hit = [f"{int(bad[kind].sum())} of {len(tables[kind])} {plural(kind)}" for kind in ORDER
           if kind in bad and bad[kind].any()]
    return f"NaN or infinite values: {joined(hit)} are not finite"


def _remedy(origin: Origin, view: StepView, memory: Memory) -> str:
    slower = lower_rate(learning_rate(view), 10)
    odd = odd_batch_behind(memory, view.step.number)
    if odd is not None:
        return f"{sentence(odd.why)}. {odd.remedy}"
    least, last = memory.get("least_loss"), memory.get("last_loss")
    if least is not None and last is not None and last > GREW * max(least, 0.0) > 0:
        return (f"The loss had grown from {number(least)} to {number(last)} by step {memory['last_loss_step']}: "
                f"training diverged. {sentence(slower)}, warm it up, or clip gradients to a norm of 1.")
    subject = origin.table.subjects[origin.row]
    if subject.dtype == "float16":
        return f'"{subject.key.path}" is float16, which ends at 65504: use bfloat16, or keep this layer in float32.'
    batch = f"Look at the batch of step {view.step.number}"
    place = "batch" if was_fed_badly(view) else origin.place
    advice = {
        "batch": f"{batch}: which samples hold NaN or infinite values, and whether scaling divides by zero. "
                 "Repair or drop them where the data is loaded.",
        "between": "Look at the code between these two for log, sqrt, exp or a division; add an epsilon "
                   "inside, or clamp what goes in.",
        "loss": "Look at the loss for a log or a division that meets 0, and for labels out of range. Take the loss "
                "that works on logits (cross_entropy, binary_cross_entropy_with_logits), or add an epsilon.",
        "gradient": f'The forward pass is finite: look in and after "{layer_path(subject.key.path)}" for sqrt, norm, '
                    "a division or where at 0, whose derivative is infinite there; add an epsilon inside. Clipping "
                    "does not help against NaN.",
        "weight": f"No gradient shows it: look at the optimizer. {sentence(slower)}, and raise its eps.",
    }
    usual = f"{batch} first; if its values are as usual, {slower}, warm it up, or clip gradients to a norm of 1."
    return advice.get(place, usual)


def _others_hit(
    origin: Origin, tables: Mapping[Kind, Table], bad: Mapping[Kind, Flags], step: int
) -> list[Evidence]:
    """Return one line of evidence for each other kind that is hit."""
    found = []
    for kind in ORDER:
        rows = np.flatnonzero(bad[kind]) if kind in bad else np.zeros(0, np.intp)
        if len(rows) and tables[kind] is not origin.table:
            text = f"{len(rows)} of {len(tables[kind])} {plural(kind)} are not finite"
            found.append(evidence_of(tables[kind], int(rows[0]), step, text))
    return found

