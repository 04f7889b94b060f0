"""The rule about values outside the range of their number format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from barograph.measures.formats import FORMATS, FP16, NumberFormat, format_from_name
from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.records import Subject
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import Table, table_of
from barograph.rules.once import once
from barograph.rules.step_groups import Numbers
from barograph.rules.suspects import about, ranked, remember_facts
from barograph.rules.words import IN_BFLOAT16, SCALER, names, number, percent
from barograph.runs.reading.view import StepView

_OF_DTYPE = {"float16": "fp16", "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "bfloat16": "bf16"}
_BIAS = 127
_FEW_BITS = 4
"""Values within this many powers of two of a format's smallest number keep fewer than four bits."""


@dataclass(frozen=True, kw_only=True)
class UnderflowOverflow(Rule):
    """N103: Values are too small or too large for their number format.

    What it sees: the exponent histograms of gradients and the largest magnitudes of outputs, against the range of the
      format that the run computes in: that of the tensor (float16, bfloat16, float8), or that of the outputs under
      autocast. Gradients underflow if more than `threshold` of their non-zero elements keep fewer than four bits (they
      are within 16 times the smallest number), after correcting for the loss scale; or if float16 gradients are exactly
      zero except for `alive` of their elements, in most layers at once. Outputs overflow if they reach `headroom` of
      the largest number. With `format`, every run is compared with that format, to test whether it would fit.
    Why it matters: gradients flushed to zero train nothing, silently; an overflow is infinite, and NaN one operation
      later.
    What to do: against underflow, scale the loss (torch.amp.GradScaler) or train in bfloat16, which has float32's
      range. Against overflow, use bfloat16, normalization layers, or float32 for this layer.
    When it is wrong: sparse gradients by design (embeddings) are not evaluated by their zeros. Values flushed before
      recording cannot be counted: the values close to them are counted instead. Without histograms (preset "standard"
      records them every tenth step) small values are not detected.
    Source: Micikevicius et al., "Mixed precision training", 2018; Micikevicius et al., "FP8 formats for deep
      learning", 2022.
    """

    code: ClassVar[str] = "N103"
    name: ClassVar[str] = "underflow-overflow"
    severity: ClassVar[Severity] = Severity.COSTLY

    format: str = parameter("", "Format to compare every run with; \"\": the one it computes in.",
                            choices=("", *FORMATS))
    threshold: float = parameter(
        0.5, "Allowed share of too small values among non-zero gradient elements.", above=0.0, below=1.0,
    )
    alive: float = parameter(0.01, "Least share of non-zero elements in a float16 gradient.", above=0.0, below=1.0)
    headroom: float = parameter(0.5, "Share of the format's largest number that outputs may "
                                     "reach.", above=0.0, at_most=1.0)
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        schedule = Schedule(every=10, steps=frozenset({1, 2, 3}), modes=frozenset({Mode.TRAIN}))
        return (
            Selection(kinds=frozenset({Kind.GRADIENT}), schedule=schedule, histogram=Histogram.SAMPLED),
            Selection(kinds=frozenset({Kind.OUTPUT}), schedule=schedule),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        gradients, outputs = table_of(view, Kind.GRADIENT), table_of(view, Kind.OUTPUT)
        facts = remember_facts(view, memory, Fact.LOSS_SCALE)
        scale = about(facts, Fact.LOSS_SCALE).get("", 1.0)
        # Under autocast some layers compute in a narrow format, and so do their gradients.
        narrowest = {*_formats(outputs.subjects)} - {"bf16"}
        if narrowest:
            memory["computes_in"] = min(narrowest)
        narrow = self.format or memory.get("computes_in", "")
        if not narrow and Fact.LOSS_SCALE in facts:
            narrow = FP16.name
        if not (narrow or _formats(gradients.subjects) or _formats(outputs.subjects)):
            yield Unjudged("the run does not compute in low precision (float16, bfloat16), or did not record it")
            return
        if view.step.mode is not Mode.TRAIN:
            yield Unjudged("only evaluations were recorded")
            return
        yield from self._underflow(view, gradients, narrow, scale)
        yield from self._overflow(view, outputs)

    def _underflow(self, view: StepView, gradients: Table, narrow: str, scale: float) -> Iterable[Symptom]:
        histograms = view.columns(Kind.GRADIENT).exponents
        if histograms is not None and len(histograms) == len(gradients):
            shares = np.full(len(gradients), np.nan)
            for fmt, held in _by_format(gradients, narrow, self.format):
                if fmt.name != "bf16":
                    shares[held] = _too_small(histograms[held], fmt, scale)
            rows = np.flatnonzero(shares > self.threshold)
            if len(rows):
                yield self._symptom(view, gradients, rows, shares, scale)
                return
        half = (gradients.dtypes == "float16") & ~np.char.startswith(gradients.classes, "Embedding")
        zeros = gradients.column("zeros") / np.maximum(gradients.column("count"), 1.0)
        starved = half & (zeros > 1 - self.alive)
        if half.sum() >= _LEAST_LAYERS and starved.sum() > 0.5 * half.sum() and not view.step.skipped:
            yield self._starved(view, gradients, np.flatnonzero(starved), zeros, scale)

    def _overflow(self, view: StepView, outputs: Table) -> Iterable[Symptom]:
        if not len(outputs):
            return
        limits = np.full(len(outputs), np.inf)
        for fmt, held in _by_format(outputs, self.format, self.format):
            limits[held] = self.headroom * fmt.largest
        with np.errstate(invalid="ignore"):
            rows = np.flatnonzero(outputs.max_abs >= limits)
        if not len(rows):
            return
        which = names([outputs.paths[row] for row in rows.tolist()])
        worst = int(rows[np.argmax(outputs.max_abs[rows] / limits[rows])])
        most = float(outputs.max_abs[worst])
        why = f'outputs of "{outputs.paths[worst]}" reach {number(most)}'
        yield Symptom(
            message=f"Outputs are close to overflow: {why}; the largest number of the format is "
                    f"{number(float(limits[worst]) / self.headroom)} ({which}).",
            remedy=f"Train in bfloat16 ({IN_BFLOAT16}), keep this layer in float32, or add a normalization layer "
                   "before it.",
            evidence=(Evidence(outputs.subjects[worst].key, view.step.number, "max_abs", most, float(limits[worst]),
                               f"reaches {number(most)}"),),
            subject="overflow", causes=(Suspicion(Cause.FP16_OVERFLOW, 0.8, why),),
        )

    def _symptom(
        self, view: StepView, gradients: Table, rows: NDArray[np.intp], shares: Numbers, scale: float
    ) -> Symptom:
        worst = rows[np.argsort(-shares[rows], kind="stable")].tolist()
        which = names([gradients.paths[row] for row in worst])
        share = percent(float(shares[worst[0]]))
        why = f'{share} of the gradient of "{gradients.paths[worst[0]]}" is too small'
        return Symptom(
            message=f"Gradients underflow in {len(rows)} of {len(gradients)} tensors ({which}): {why} for the number "
                    "format.",
            remedy=_against_underflow(scale),
            evidence=tuple(Evidence(gradients.subjects[row].key, view.step.number, "share_too_small",
                                    float(shares[row]), self.threshold, f"{percent(float(shares[row]))} too small")
                           for row in worst[:3]),
            subject="underflow",
            causes=ranked(Suspicion(Cause.FP16_UNDERFLOW, 0.8, why, _against_underflow(scale)),
                          Suspicion(Cause.VANISHING_GRADIENT, 0.2, why)),
        )

    def _starved(
        self, view: StepView, gradients: Table, rows: NDArray[np.intp], zeros: Numbers, scale: float
    ) -> Symptom:
        which = names([gradients.paths[row] for row in rows.tolist()])
        why = f"{percent(float(zeros[rows].mean()))} of the float16 gradients of {which} is exactly zero"
        return Symptom(
            message=f"Gradients underflow: {why}.", remedy=_against_underflow(scale),
            evidence=tuple(Evidence(gradients.subjects[row].key, view.step.number, "sparsity", float(zeros[row]),
                                    1 - self.alive, f"{percent(float(zeros[row]))} is exactly zero")
                           for row in rows[:3].tolist()),
            subject="underflow",
            causes=(Suspicion(Cause.FP16_UNDERFLOW, 0.7, why, _against_underflow(scale)),
                    Suspicion(Cause.DEAD_RELU, 0.2, why)),
        )


_LEAST_LAYERS = 2


@once
def _formats(subjects: tuple[Subject, ...]) -> tuple[str, ...]:
    """Return the narrow formats among the dtypes of these tensors."""
    return tuple(sorted({_OF_DTYPE[subject.dtype] for subject in subjects if subject.dtype in _OF_DTYPE}))


def _by_format(table: Table, narrow: str, asked: str) -> Iterator[tuple[NumberFormat, NDArray[np.bool_]]]:
    """Yield each format that tensors of a table are compared with, and their rows.

    Args:
        table: The tensors.
        narrow: Format for tensors with a wide dtype; "" for none.
        asked: Format for all tensors, regardless of dtype; "" for none.
    """
    if asked:
        yield format_from_name(asked), np.ones(len(table), bool)
        return
    own = np.zeros(len(table), bool)
    for dtype, name in _OF_DTYPE.items():
        rows = table.dtypes == dtype
        own |= rows
        if name != narrow and rows.any():
            yield format_from_name(name), rows
    if narrow:
        named = {name: dtype for dtype, name in _OF_DTYPE.items()}[narrow]
        yield format_from_name(narrow), ~own | (table.dtypes == named)


def _too_small(histograms: NDArray[np.int64], fmt: NumberFormat, scale: float) -> Numbers:
    """Return the share of non-zero elements in each row that keep fewer than four bits in a format."""
    both = histograms[:, :256] + histograms[:, 256:]
    exponent = round(math.log2(fmt.smallest_subnormal / scale)) + _FEW_BITS + _BIAS
    below = both[:, : min(max(exponent, 0), 256)].sum(axis=1)
    total = both.sum(axis=1)
    return np.asarray(np.where(total > 0, below / np.maximum(total, 1), np.nan))


def _against_underflow(scale: float) -> str:
    scaled = "" if scale == 1.0 else f" (current scale: {number(scale)})"
    return (f"Scale the loss ({SCALER}){scaled}, or train in bfloat16 "
            f"({IN_BFLOAT16}), which has float32's range.")
