"""The rule about NaN and infinite values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind, layer_path
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import GRADIENTS, Table, stated_loss, table_of
from barograph.rules.nonfinite_causes import REPLAY, causes_of, was_fed_badly
from barograph.rules.odd_batches import follow_batches
from barograph.rules.operations import NO_LABELS, averaged_nothing
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
from barograph.rules.words import joined, sentence
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class NonFinite(Rule):
    """N101: A tensor holds NaN or infinite values.

    What it sees: the counts of NaN, +inf and −inf in every loss, layer output, gradient and weight. It reports which of
      these was affected first in the step (a step computes outputs, then losses, gradients and weights). If the origin
      is a module among others, N102 names it, and this rule lists what else is affected. A batch at most 20 steps
      earlier that exceeds all previous batches ten times is reported as the cause.
    Why it matters: NaN spreads. After one update every weight is NaN, and all further training is lost.
    What to do: see the finding: it names what was affected first, and the likely cause in this run. Usual remedies: a
      lower learning rate, warm-up, clipping; bfloat16 or float32 instead of float16; a loss that takes logits; an
      epsilon inside log, sqrt and division; removing the bad sample from the batch.
    When it is wrong: infinities in layer inputs and outputs alone are ignored while loss, gradients and weights stay
      finite (attention masks are −inf on purpose), and so are gradients in a step that a gradient scaler skipped. If
      outputs are not recorded in every step, the origin is that of the first recorded step; the finding states how many
      steps before it were not recorded.
    Tested on: silent on all 145 healthy trainings, including masked attention and bfloat16. A batch of NaN is named in
      its step.
    Source: Amazon SageMaker Debugger's ExplodingTensor.
    """

    code: ClassVar[str] = "N101"
    name: ClassVar[str] = "non-finite"
    severity: ClassVar[Severity] = Severity.BREAKING

    kinds: tuple[str, ...] = parameter(
        ("loss", "output", "gradient", "weight"), "Kinds of record to check.",
        choices=(kind.value for kind in ORDER),
    )
    only_nan: bool = parameter(False, "Report NaN only, and ignore infinities.")

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
            memory["steps"] = memory.get("steps", 0) + 1
        if not any_bad(view, tables, only_nan=self.only_nan):
            _remember(view, memory)
            return
        if view.step.mode is not Mode.TRAIN and memory.get("training_is_hit"):
            yield Unjudged("training already has non-finite values, and so has evaluation")
            return
        memory["training_is_hit"] = view.step.mode is Mode.TRAIN
        bad = bad_rows(view, tables, only_nan=self.only_nan)
        if Kind.INPUT not in tables:
            # They help to locate the origin even if not configured.
            tables[Kind.INPUT] = table_of(view, Kind.INPUT)
            bad[Kind.INPUT] = tables[Kind.INPUT].column("nan") + tables[Kind.INPUT].infinite > 0
        origin = origin_of(tables, bad, fed_well=was_fed_well(view))
        causes = causes_of(origin, view, memory)
        if view.step.mode is Mode.TRAIN and origin.place == "loss" and _is_harmless(view, bad, memory):
            yield _of_the_loss_alone(origin, view, memory, causes)
            return
        what = origin.text if origin.place not in MODULES else _hit_in_words(tables, bad)
        yield Symptom(
            message=f"{what}{_unseen_before(view, memory)}.",
            remedy=_remedy(origin, view, causes[0] if causes else None),
            evidence=(origin.evidence(view.step.number), *_others_hit(origin, tables, bad, view.step.number)),
            causes=causes,
        )


def _remember(view: StepView, memory: Memory) -> None:
    if view.step.mode is Mode.TRAIN:
        memory["training_is_hit"], memory["loss_bad_in_a_row"] = False, 0
    gradients = table_of(view, Kind.GRADIENT)
    if len(table_of(view, Kind.OUTPUT)) or len(gradients):
        memory["finite_step"] = view.step.number
    if len(gradients) and view.step.mode is Mode.TRAIN:
        norm = gradients.norm
        # The first values may be large; growth is measured from the minimum.
        memory["last_norm"], memory["least_norm"] = norm, min(norm, memory.get("least_norm", norm))
        memory["recurrent"] = memory.get("recurrent", False) or recurrent(gradients.layers.classes)
    found = stated_loss(view)
    if found is not None and view.step.mode is Mode.TRAIN:
        memory["last_loss"], memory["last_loss_step"] = found[1], view.step.number
        memory["least_loss"] = min(found[1], memory.get("least_loss", found[1]))


def _is_harmless(view: StepView, bad: Mapping[Kind, Flags], memory: Memory) -> bool:
    """Return whether a non-finite loss affects nothing but the mean of the losses.

    Its gradients and weights are finite, as with a mean over no labels, and it does not persist.
    """
    gradients = table_of(view, Kind.GRADIENT)
    memory.setdefault("loss_bad_in_a_row", 0)
    # A step that recorded only its loss is assumed to be like those recorded in full.
    known = len(gradients) > 0 or averaged_nothing(view) or ("loss_alone" in memory and not memory["loss_bad_in_a_row"])
    alone = all(not bad[kind].any() for kind in (*GRADIENTS, Kind.UPDATE, Kind.WEIGHT) if kind in bad)
    memory["loss_bad_in_a_row"] += 1
    return known and alone and gradients.is_whole and memory["loss_bad_in_a_row"] < _LASTS


def _of_the_loss_alone(
    origin: Origin, view: StepView, memory: Memory, causes: tuple[Suspicion, ...]
) -> Symptom:
    memory["loss_alone"] = count = memory.get("loss_alone", 0) + 1
    steps = memory["steps"]
    batches = f"{count} of {steps} batches"
    no_labels = memory["no_labels"] = averaged_nothing(view) or memory.get("no_labels", False)
    what = (f"{batches} had no labels to average, so their loss is NaN" if no_labels else
            f"The loss is not finite in {batches}; gradients and weights stay finite")
    if no_labels:
        causes = (NO_LABELS,)
    return Symptom(
        message=f"{what}. Training continues, but the mean over all losses is NaN.",
        remedy=_remedy(origin, view, causes[0] if causes else None),
        evidence=(origin.evidence(view.step.number),), subject="loss alone", causes=causes,
        severity=Severity.DOUBTFUL, counting=True,
        why="Such a batch trains nothing, and turns the mean loss of its epoch into NaN.",
    )


_LASTS = 10
"""Consecutive steps with a non-finite loss from which on single batches are not the reason."""


def _unseen_before(view: StepView, memory: Memory) -> str:
    last = memory.get("finite_step")
    if last is None or view.step.number - last <= 1:
        return ""
    first, end = last + 1, view.step.number - 1
    steps = f"step {first} was" if first == end else f"steps {first} to {end} were"
    return f" ({steps} not recorded; it may have started there)"


def _hit_in_words(tables: Mapping[Kind, Table], bad: Mapping[Kind, Flags]) -> str:
    hit = [f"{int(bad[kind].sum())} of {len(tables[kind])} {plural(kind)}" for kind in ORDER
           if kind in bad and bad[kind].any()]
    return f"NaN or infinite values in {joined(hit)}"


def _remedy(origin: Origin, view: StepView, likeliest: Suspicion | None) -> str:
    if likeliest is not None and likeliest.cause != Cause.NOT_KNOWN_YET and likeliest.remedy:
        all_facts = f"{sentence(likeliest.why)}. " if likeliest.cause == Cause.BAD_SAMPLE else ""
        return f"{all_facts}{likeliest.remedy}"
    subject = origin.table.subjects[origin.row]
    fed_badly = was_fed_badly(view) or (likeliest is not None and likeliest.cause == Cause.NON_FINITE_INPUT)
    place = "batch" if fed_badly else origin.place
    advice = {
        "weight": "The gradients are finite, so the update caused it: check the optimizer, first its eps.",
        "batch": f"Check the batch of step {view.step.number} for samples with NaN or infinite values and for "
                 "scaling that divides by zero. Repair or drop them in the data loading.",
        "between": "Check the code between these two for log, sqrt, exp or a division; add an epsilon, "
                   "or clamp the input.",
        "gradient": f'The forward pass is finite: check in and after "{layer_path(subject.key.path)}" for sqrt, norm, '
                    "a division or where at 0, where the derivative is infinite; add an epsilon. Clipping "
                    "does not help against NaN.",
    }
    if place in advice and not (likeliest is not None and likeliest.cause == Cause.NOT_KNOWN_YET):
        return advice[place]
    return f"{REPLAY} {advice[place]}" if place in advice else REPLAY


def _others_hit(
    origin: Origin, tables: Mapping[Kind, Table], bad: Mapping[Kind, Flags], step: int
) -> list[Evidence]:
    """Return one line of evidence for each other affected kind."""
    found = []
    for kind in ORDER:
        rows = np.flatnonzero(bad[kind]) if kind in bad else np.zeros(0, np.intp)
        if len(rows) and tables[kind] is not origin.table:
            text = f"{len(rows)} of {len(tables[kind])} {plural(kind)} are not finite"
            found.append(evidence_of(tables[kind], int(rows[0]), step, text))
    return found

