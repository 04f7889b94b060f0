"""Rules about the values of any tensor: all zero, or an unexpected variance."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.records import Subject
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import fact_value
from barograph.rules.columns import Table, table_of
from barograph.rules.kept import keep, recall
from barograph.rules.suspects import ranked
from barograph.rules.words import BY_ACTIVATION, names, number, percent
from barograph.runs.reading.view import StepView

Rows = NDArray[np.intp]
"""Which rows of a table."""

_EVERY = Schedule(every=10, modes=frozenset({Mode.TRAIN}))
_TENSORS = (Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.INPUT, Kind.OUTPUT, Kind.BATCH,
            Kind.TARGET)


@dataclass(frozen=True, kw_only=True)
class AllZero(Rule):
    """W105: A tensor became all zero, or the batch always was.

    What it sees: the share of zeros in each tensor of the chosen `kinds`. The rule fires if a tensor has `threshold` or
      more zeros in `num_steps` consecutive recorded steps (outputs and batches: over at least 256 samples) after it had
      other values: weights pulled to zero, a layer whose outputs died. A batch of zeros is reported from the start.
    Why it matters: zeros pass no signal on, and usually no gradient back.
    What to do: weights: lower the weight decay. Outputs: see A101, and lower the learning rate. Batch: check for
      integer division (image // 255), and that the loader finds its files.
    When it is wrong: layers switched off during training on purpose, pruned weights. Tensors that start at zero
      (biases, adapters, LayerScale, a head) are ignored until they have changed. Gradients are left to W104, ReLU
      layers to A101.
    Source: Amazon SageMaker Debugger's AllZero, which evaluated a single step.
    """

    code: ClassVar[str] = "W105"
    name: ClassVar[str] = "all-zero"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    kinds: tuple[str, ...] = parameter(
        ("weight", "output", "batch"), "Kinds of record to check.", choices=(kind.value for kind in _TENSORS),
    )
    threshold: float = parameter(1.0, "Share of zeros from which a tensor counts as zero.", above=0.0, at_most=1.0)
    num_steps: int = parameter(10, "Consecutive recorded steps in which it must be zero.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset(Kind(kind) for kind in self.kinds), schedule=_EVERY),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.skipped or view.step.mode is not Mode.TRAIN:
            yield Unjudged("no training step was recorded")
            return
        seen = 0
        batch_size = fact_value(view, Fact.BATCH_SIZE)
        if batch_size:
            memory["batch_size"] = batch_size
        for kind in self.kinds:
            table = table_of(view, Kind(kind))
            if not len(table):
                continue
            seen += 1
            # With batches of one sample, ten zero outputs in a row can be chance; with weights they cannot.
            least = self.num_steps if kind == Kind.WEIGHT else max(
                self.num_steps, _LEAST_SAMPLES / memory.get("batch_size", math.inf))
            rows = self._zero_for_long(table, memory.setdefault(kind, {}), least, always=kind == Kind.BATCH)
            if len(rows):
                yield self._symptom(table, rows, view.step.number)
        if not seen:
            yield Unjudged(f"no {' or '.join(self.kinds)} was recorded")

    def _zero_for_long(self, table: Table, memory: Memory, least: float, *, always: bool) -> Rows:
        if table.largest_sparsity < _NEARLY * self.threshold and not memory.get("any"):
            self._keep_alive(table, memory)
            return _NO_ROWS
        zero = table.column("zeros") >= self.threshold * table.column("count")
        if not zero.any() and not memory.get("any"):
            self._keep_alive(table, memory)
            return _NO_ROWS
        kept = recall(memory, table.paths, length=0.0, alive=0.0)
        length = np.where(zero, kept["length"] + 1, 0.0)
        alive = np.where(zero, kept["alive"], 1.0)
        memory["any"] = bool((length > 0).any())
        keep(memory, table.paths, length=length, alive=alive)
        left_to_others = np.array(["ReLU" in subject.layer or _is_no_quantity(subject) for subject in table.subjects],
                                  bool)
        return np.flatnonzero((length >= least) & ((alive > 0) | always) & ~left_to_others)

    @staticmethod
    def _keep_alive(table: Table, memory: Memory) -> None:
        # All alive, as in nearly every step: store only the names, when they change.
        paths = list(table.paths)
        if memory.get("alive_paths") != paths:
            keep(memory, paths, length=np.zeros(len(table)), alive=np.ones(len(table)))
            memory["alive_paths"] = paths

    def _symptom(self, table: Table, rows: Rows, step: int) -> Symptom:
        kind = table.subjects[0].key.kind
        share = float(self.threshold)
        which = names([table.paths[row] for row in rows.tolist()])
        all_zero = "all zero" if self.threshold == 1.0 else f"at least {percent(share)} zeros"
        return Symptom(
            message=f"{len(rows)} of {len(table)} {kind.value} tensors are {all_zero} over {self.num_steps} "
                    f"recorded steps: {which}.",
            remedy=_AGAINST_ZERO.get(kind, "Check the code that computes it, and its arguments."),
            evidence=tuple(
                Evidence(table.subjects[row].key, step, "sparsity",
                         float(table.column("zeros")[row] / table.column("count")[row]), share,
                         f"{int(table.column('zeros')[row])} of {int(table.column('count')[row])} values are zero")
                for row in rows[:3].tolist()
            ),
            subject=kind.value, causes=_why_zero(kind, f"{which} became all zero"),
            severity=Severity.COSTLY if kind is Kind.BATCH else None,
        )


_LEAST_SAMPLES = 256
_NO_ROWS: Rows = np.zeros(0, np.intp)
_NEARLY = 1 - 1e-9
"""Tolerance for rounding."""


def _is_no_quantity(subject: Subject) -> bool:
    """Return whether zeros are normal in this tensor: integers, masks, and inputs other than the first."""
    return subject.key.kind is Kind.BATCH and (
        "int" in subject.dtype or subject.dtype == "bool" or
        ("[" in subject.key.path and not subject.key.path.endswith("[0]")))


_AGAINST_ZERO = {
    Kind.WEIGHT: "Lower the weight decay 10 times, and check that no code sets these weights.",
    Kind.OUTPUT: "Lower the learning rate 10 times and start again; check that no layer before it is switched off.",
    Kind.BATCH: "Check for integer division (image // 255), for images that are missing or not decoded, and for a mask "
                "of zeros.",
}


def _why_zero(kind: Kind, why: str) -> tuple[Suspicion, ...]:
    if kind is Kind.WEIGHT:
        return (Suspicion(Cause.WEIGHT_DECAY_TOO_LARGE, 0.5, why),)
    if kind is Kind.OUTPUT:
        return Suspicion(Cause.DEAD_RELU, 0.4, why), Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.3, why)
    if kind is Kind.BATCH:
        return (Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.5, "every value of the batch is zero"),)
    return ()


@dataclass(frozen=True, kw_only=True)
class TensorVariance(Rule):
    """W106: The variance of a tensor is outside your limits.

    What it sees: the variance of each finite tensor of the chosen `kinds` with more than one element, against
      `max_threshold` and `min_threshold`. Integers (the state of a random generator) are ignored.
    Why it matters: weights with a growing variance end in infinities; weights without variance are a single number.
    What to do: set both thresholds for the layers you know. If the rule fires: initialization for the following
      activation, weight decay, normalization layers.
    When it is wrong: the right variance depends on the task: the weights of a regression on raw numbers may reach
      millions. The defaults therefore almost never fire; set your own. W102, W105 and N101 cover the general problems.
    Source: Amazon SageMaker Debugger's TensorVariance.
    """

    code: ClassVar[str] = "W106"
    name: ClassVar[str] = "tensor-variance"
    severity: ClassVar[Severity] = Severity.NOTE

    kinds: tuple[str, ...] = parameter(
        ("weight",), "Kinds of record to check.", choices=(kind.value for kind in _TENSORS),
    )
    max_threshold: float = parameter(1e12, "Variance above which a tensor spreads too far.", above=0.0)
    min_threshold: float = parameter(0.0, "Variance below which it spreads too little; 0 disables this.", at_least=0.0)
    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset(Kind(kind) for kind in self.kinds), schedule=_EVERY),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        judged = 0
        for kind in self.kinds:
            table = table_of(view, Kind(kind))
            extent = table.variances
            judged += extent.many
            if extent.greatest <= self.max_threshold and extent.least >= self.min_threshold:
                continue
            several = table.whole & (table.column("count") > 1) & _of_fractions(table)
            for far, limit, subject in ((table.variance > self.max_threshold, self.max_threshold, "too far"),
                                        (table.variance < self.min_threshold, self.min_threshold, "too little")):
                rows = np.flatnonzero(far & several)
                if len(rows):
                    yield self._symptom(table, rows, limit, subject, view.step.number)
        if not judged:
            yield Unjudged("no finite tensor with more than one element was recorded")

    @staticmethod
    def _symptom(
        table: Table, rows: Rows, limit: float, subject: str, step: int
    ) -> Symptom:
        order = rows[np.argsort(table.variance[rows], kind="stable")]
        worst = order[::-1] if subject == "too far" else order
        values = [(int(row), float(table.variance[row])) for row in worst[:3]]
        kind = table.subjects[0].key.kind.value
        why = f'the variance of "{table.paths[values[0][0]]}" is {number(values[0][1])}'
        return Symptom(
            message=f"The variance of {len(rows)} of {len(table)} {kind} tensors is too "
                    f"{'high' if subject == 'too far' else 'low'}: {why}.",
            remedy=f"Initialize for the following activation ({BY_ACTIVATION}), and lower "
                   "the learning rate if the variance was normal at first.",
            evidence=tuple(Evidence(table.subjects[row].key, step, "variance", value, limit if limit else math.nan,
                                    f"variance {number(value)}") for row, value in values),
            subject=f"{kind} {subject}",
            causes=ranked(Suspicion(Cause.INITIALIZATION_SCALE, 0.3, why),
                          Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.2, why) if subject == "too far" else None),
        )


def _of_fractions(table: Table) -> NDArray[np.bool_]:
    """Return which rows are floating point: counters and random generator states are not."""
    return np.array(["int" not in subject.dtype and subject.dtype != "bool" and "seed_generator" not in
                     subject.key.path for subject in table.subjects], bool)
