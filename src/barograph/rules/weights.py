"""Rules about tensors that do not change."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind, layer_path
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import large_step_in, note_largest_step
from barograph.rules.columns import (
    GRADIENTS,
    TOTAL_LOSS,
    Table,
    learning_rate,
    silent_layer,
    table_of,
    table_of_rows,
)
from barograph.rules.kept import keep, recall
from barograph.rules.standstill import Runs, runs_of
from barograph.rules.step_groups import Flags, Numbers
from barograph.rules.suspects import about, ranked, remember_facts, said_to_be
from barograph.rules.words import DETACHING, lower_rate, names, number, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_PLANNED, _STOPPING = fact(Fact.ROUNDS_PLANNED), fact(Fact.EARLY_STOPPING)
_OF_BOOSTING = Selection(
    # With the loss, which every step records, so that networks also meet this need.
    kinds=frozenset({Kind.FACT, Kind.LOSS}), include=(_PLANNED.path, _STOPPING.path, TOTAL_LOSS.path),
    schedule=Schedule(every=10, steps=frozenset(range(10)), modes=_IN_TRAINING))


@dataclass(frozen=True, kw_only=True)
class UnchangedTensor(Rule):
    """W103: A tensor is identical step after step.

    What it sees: all moments (counts, extremes, sum, sum of squares, sum of magnitudes) of each tensor of the chosen
      `kinds`. A tensor is unchanged if its moments agree within `rtol` and `atol` over its last `num_steps` recorded
      steps. With the default of exact agreement, a changed tensor counts as unchanged only if all its sums agree to the
      last bit. Tensors of zeros are ignored, and losses below a millionth of their peak, which have converged.
      Gradients count only if all of them are unchanged (a small one may repeat by chance) and are at least a thousandth
      of their peak (otherwise training has converged). For boosted trees, an unchanged loss shows that new trees do not
      split; runs with early stopping are not checked.
    Why it matters: an exactly constant loss has reached a clamp or no longer depends on the model; identical gradients
      mean the same batch and the same weights every time. Trees that do not split cost time and memory and change no
      prediction.
    What to do: check that the loss depends on the model's output (no detach, .item() or argmax before it), that the
      loader returns new batches, and that optimizer.step() is called. Trees: stop at the last round that changed the
      loss, or allow more splits.
    When it is wrong: a loss that converged to a margin (hinge losses reach their minimum exactly); training on one full
      batch with weights at their optimum.
    Tested on: silent on all 145 healthy trainings except those of a linear model with L-BFGS, which converged to the
      last bit after five steps. A clamped loss, and one batch with weights in no optimizer, fire at step 9.
    Source: Amazon SageMaker Debugger's UnchangedTensor, on moments instead of full tensors.
    """

    code: ClassVar[str] = "W103"
    name: ClassVar[str] = "unchanged-tensor"
    severity: ClassVar[Severity] = Severity.COSTLY

    num_steps: int = parameter(3, "Recorded steps over which a tensor must be unchanged.", at_least=2)
    rtol: float = parameter(0.0, "Relative difference that still counts as unchanged.", at_least=0.0)
    atol: float = parameter(0.0, "Absolute difference that still counts as unchanged.", at_least=0.0)
    equal_nan: bool = parameter(False, "Whether a tensor with NaN can count as unchanged.")
    kinds: tuple[str, ...] = parameter(
        ("loss", "gradient"), "Kinds of record to check.", choices=(kind.value for kind in Kind),
    )
    patience: int = parameter(8, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        often = {Kind.LOSS.value: 1}
        chosen = tuple(
            Selection(kinds=frozenset({Kind(kind)}), schedule=Schedule(every=often.get(kind, 5), modes=_IN_TRAINING))
            for kind in self.kinds
        )
        return (*chosen, _OF_BOOSTING) if Kind.LOSS.value in self.kinds else chosen

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.skipped or view.step.mode is not Mode.TRAIN:
            yield Unjudged("no training step with an optimizer step was recorded")
            return
        stopping = view.scalar(_STOPPING)
        if stopping is not None or view.scalar(_PLANNED) is not None:
            memory["stopping"] = stopping if stopping is not None and math.isfinite(stopping) else 0.0
        if memory.get("stopping"):
            yield Unjudged(f"early stopping ends the training after {int(memory['stopping'])} rounds without "
                           "improvement")
            return
        same: list[tuple[Table, int]] = []
        since: list[tuple[int, int]] = []
        waiting = 0
        for kind in self.kinds:
            table = table_of(view, Kind(kind))
            if not len(table):
                continue
            known = memory.setdefault(kind, {})
            runs = runs_of(table, known, step=view.step.number, rtol=self.rtol, atol=self.atol)
            known["steps"] = known.get("steps", 0) + 1
            waiting += known["steps"] < self.num_steps
            matters = kind not in GRADIENTS or _matters(table, memory)
            converged = kind == Kind.LOSS.value and _converged(table, memory.setdefault("peaks", {}))
            if runs.longest < self.num_steps or not matters:
                continue
            counts = (table.column("count") > table.column("zeros")) & (self.equal_nan | table.whole)
            unchanged = (runs.length >= self.num_steps) & counts & ~np.asarray(converged)
            if kind in GRADIENTS and not (unchanged == counts).all():
                continue
            same += [(table, int(row)) for row in np.flatnonzero(unchanged)]
            since += zip(runs.since[unchanged].tolist(), runs.length[unchanged].tolist(), strict=True)
        if waiting:
            yield Unjudged(f"needs {self.num_steps} recorded steps to compare")
        if same:
            began, steps = min(since)
            tell = self._of_trees if "stopping" in memory else self._symptom
            yield tell(same, since=began, steps=steps, step=view.step.number)

    def _symptom(self, same: list[tuple[Table, int]], *, since: int, steps: int, step: int) -> Symptom:
        keys = [table.subjects[row].key for table, row in same]
        return Symptom(
            message=f"{names([str(key) for key in keys])} did not change over {steps} recorded steps, from step "
                    f"{since} to {step}.",
            remedy=_against_standstill({key.kind for key in keys}),
            evidence=tuple(self._evidence(table, row, step) for table, row in same[:3]),
            since=since,
            causes=_why_still({key.kind for key in keys}, f"{names([str(key) for key in keys])} did not change"),
        )

    def _of_trees(self, same: list[tuple[Table, int]], *, since: int, steps: int, step: int) -> Symptom:
        keys = [table.subjects[row].key for table, row in same]
        all_facts = (
            f"{names([str(key) for key in keys])} did not change over {steps} rounds, from round {since} to {step}"
        )
        return Symptom(
            message=f"New trees change nothing: {all_facts}.",
            remedy=f"Stop at round {since} (early_stopping_rounds, n_iter_no_change). If the loss should be lower "
                   "by then, allow more splits: lower gamma (min_split_loss, min_gain_to_split), "
                   "min_child_weight or min_data_in_leaf.",
            evidence=tuple(self._evidence(table, row, step) for table, row in same[:3]),
            since=since, causes=(Suspicion(Cause.TREES_ADD_NOTHING, 0.8, all_facts),), severity=Severity.DOUBTFUL,
        )

    def _evidence(self, table: Table, row: int, step: int) -> Evidence:
        total = float(table.column("sum")[row])
        text = f"sum {total!r} in each of the last {self.num_steps} recorded steps"
        return Evidence(table.subjects[row].key, step, "sum", total, math.nan, text)


def _converged(losses: Table, memory: dict[str, Any]) -> Flags:
    """Return which losses are so far below their peak that rounding keeps them from changing."""
    now = np.where(losses.whole, losses.l2, 0.0)
    peak = np.maximum(recall(memory, losses.paths, peak=0.0)["peak"], now)
    keep(memory, losses.paths, peak=peak)
    return np.asarray(now < _ROUNDING * peak)


def _matters(gradients: Table, memory: Memory) -> bool:
    """Return whether the gradients' norm is within three orders of magnitude of its peak."""
    norm = gradients.norm
    memory["peak"] = max(norm, memory.get("peak", 0.0))
    return norm >= _FAINT_SHARE * float(memory["peak"])


def _why_still(kinds: set[Kind], why: str) -> tuple[Suspicion, ...]:
    if Kind.LOSS in kinds:
        return (Suspicion(Cause.DETACHED_GRAPH, 0.3, why), Suspicion(Cause.WRONG_LOSS, 0.3, why),
                Suspicion(Cause.DEAD_RELU, 0.1, why), Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.1, why))
    if kinds & GRADIENTS:
        return Suspicion(Cause.REPEATED_BATCH, 0.4, why), Suspicion(Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.3, why)
    return ()


def _against_standstill(kinds: set[Kind]) -> str:
    if Kind.LOSS in kinds:
        return (f"Check that the loss depends on the model's output (no {DETACHING}, "
                "argmax or clamp before it), and that the optimizer steps with this model's parameters.")
    if Kind.GRADIENT in kinds:
        return "Check that the loader returns a new batch each step, and that the optimizer updates this model."
    return "Check that the code that computes it gets the current batch and weights."


@dataclass(frozen=True, kw_only=True)
class FrozenParameter(Rule):
    """W104: A parameter never changes although it should learn.

    What it sees: the moments of each weight, and its gradient. If a weight is identical to the last bit over
      `num_steps` recorded optimizer steps (and over `num_samples` samples if it got no gradient), there are three
      cases: its gradient is non-zero, yet it does not change; its gradient is zero in every step; or it has no gradient
      at all, and is ignored.
    Why it matters: part of the model keeps its initial values while training seems to work.
    What to do: pass the parameter to an optimizer (created after the model is in its final place; an earlier one holds
      the old parameters); check that the learning rate of its group is not 0; keep master weights in float32 if the
      weights are bfloat16 or float16, whose precision is too low for small updates.
    When it is wrong: a group that a schedule keeps at learning rate 0 for a while; dead units (see A101). Parameters
      without any gradient are not checked: frozen on purpose looks the same as forgotten.
    Tested on: silent on all 145 healthy trainings, including frozen layers, unused layers, LoRA, biases before batch
      normalization and bfloat16 weights. A layer in no optimizer fires by step 10; so do layers behind dead units and
      layers initialized to zero.
    Source: TrainCheck, OSDI 2025, on silent errors in training; the three causes are common in user reports.
    """

    code: ClassVar[str] = "W104"
    name: ClassVar[str] = "frozen-parameter"
    severity: ClassVar[Severity] = Severity.COSTLY

    num_steps: int = parameter(10, "Recorded steps over which a weight must be unchanged.", at_least=2)
    num_samples: int = parameter(
        256, "Samples in these steps without a gradient, if the batch size is known.", at_least=1,
    )

    @property
    def needs(self) -> tuple[Selection, ...]:
        schedule = Schedule(every=5, modes=_IN_TRAINING)
        return tuple(Selection(kinds=frozenset({kind}), schedule=schedule) for kind in (Kind.WEIGHT, Kind.GRADIENT))

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        weights, gradients = table_of(view, Kind.WEIGHT), table_of(view, Kind.GRADIENT)
        rate = learning_rate(view)
        facts = remember_facts(view, memory, *_FACTS)
        note_largest_step(view, memory)
        remember_norms(view, memory)
        if view.step.skipped or view.step.mode is not Mode.TRAIN or not len(weights) or not len(gradients):
            yield Unjudged("no step recorded both weights and gradients")
            return
        if rate == 0:
            yield Unjudged("the learning rate was 0 in every recorded step")
            return
        if rate is not None:
            memory["peak_rate"] = max(rate, memory.get("peak_rate", rate))
            if rate < _DECAYED * memory["peak_rate"]:
                yield Unjudged("the learning rate has decayed so far that updates are below the precision of the "
                               "weights")
                return
        pairs = _paired(weights, gradients)
        runs = runs_of(pairs.weights, memory.setdefault("weights", {}), step=view.step.number)
        push = _push_since(pairs, runs, memory.setdefault("push", {}))
        memory["steps"] = memory.get("steps", 0) + 1
        memory.setdefault("began", view.step.number)
        if memory["steps"] < self.num_steps:
            yield Unjudged(f"needs {self.num_steps} steps in which a weight could change; this run has "
                           f"{memory['steps']}")
            return
        if runs.longest < self.num_steps:
            return
        batch_size = max(about(facts, Fact.BATCH_SIZE).get("", math.inf), 1.0)
        for subject, level in (("not moved", _PUSHED), ("gradient zero", _NO_PUSH)):
            least = max(self.num_steps, self.num_samples / batch_size) if level == _NO_PUSH else self.num_steps
            rows = np.flatnonzero((runs.length >= least) & (push == level)).tolist()
            if level == _PUSHED and is_norm_on_purpose(facts, memory):
                rows = [row for row in rows if "Norm" not in pairs.weights.subjects[row].layer]
            if level == _NO_PUSH:
                rows = _without_idle_biases(pairs.weights, rows)
            if rows:
                since = int(runs.since[rows].min())
                # A weight that changed before was neither detached nor initialized to zero: something stopped it.
                stopped = (large_step_in(memory) or "") if since > memory["began"] else None
                yield self._symptom(subject, pairs, rows, facts, since=since, view=view, stopped=stopped)

    def _symptom(
        self, subject: str, pairs: _Pairs, rows: list[int], facts: dict[str, float], *, since: int, view: StepView,
        stopped: str | None,
    ) -> Symptom:
        weights, gradients, step = pairs.weights, pairs.gradients, view.step.number
        if subject == "not moved":
            why, remedy = "although gradients reach them", _against_not_moving(pairs, rows)
        else:
            why, remedy = "and their gradient is exactly zero", (
                f"Check that their output reaches the loss (no {DETACHING}, no unused branch), "
                "that their units are neither dead nor saturated (scale the inputs), and that no layer around them "
                "starts at zero."
            )
        return Symptom(
            message=f"Of {len(weights)} parameters, {names([weights.paths[row] for row in rows])} did not change "
                    f"over {self.num_steps} recorded steps, from step {since} to {step}, {why}.",
            remedy=remedy, subject=subject, since=since,
            causes=_why_frozen(subject, facts, _narrow_format(pairs, rows), silent_layer(view),
                               any(weights.l2[row] == 0 and not weights.paths[row].endswith("bias") for row in rows),
                               f"{names([weights.paths[row] for row in rows])} never changed"
                               if stopped is None or subject == "not moved" else
                               f"{names([weights.paths[row] for row in rows])} changed until step {since}", stopped,
                               lower_rate(learning_rate(view), 10)),
            evidence=tuple(
                Evidence(weights.subjects[row].key, step, "l2", float(weights.l2[row]), math.nan,
                         f"norm {number(float(weights.l2[row]))} unchanged, gradient norm "
                         f"{number(float(gradients.l2[row]))}")
                for row in rows[:3]
            ),
        )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The parameters with both weight and gradient in this step, row by row."""

    weights: Table
    gradients: Table


def _paired(weights: Table, gradients: Table) -> _Pairs:
    if weights.paths == gradients.paths and weights.is_whole and gradients.is_whole:
        return _Pairs(weights, gradients)
    weight_whole, gradient_whole = weights.whole, gradients.whole
    at = {path: row for row, path in enumerate(gradients.paths) if gradient_whole[row]}
    rows = [(row, at[path]) for row, path in enumerate(weights.paths) if path in at and weight_whole[row]]
    # N101 reports values that are not finite.
    return _Pairs(*(
        table_of_rows(tuple(table.subjects[pair[side]] for pair in rows), table.moments[[pair[side] for pair in rows]])
        for side, table in enumerate((weights, gradients))
    ))


def remember_norms(view: StepView, memory: Memory) -> None:
    """Remember the normalization layers, if this step recorded outputs or weights."""
    norms: list[str] = memory.setdefault("norms", [])
    for kind in (Kind.OUTPUT, Kind.WEIGHT):
        for subject in view.columns(kind, histograms=False).subjects if kind in view.kinds else ():
            path = layer_path(subject.key.path) if kind is Kind.WEIGHT else subject.key.path
            if "Norm" in subject.layer and path not in norms:
                norms.append(path)


def is_norm_on_purpose(facts: dict[str, float], memory: Memory) -> bool:
    """Return whether the parameters in no optimizer are normalization layers of an otherwise frozen body.

    Fine-tuning a head often leaves them unfrozen.
    """
    outside = [layer_path(path) for path in about(facts, Fact.OUTSIDE_OPTIMIZER) if path]
    return bool(outside) and about(facts, Fact.FROZEN).get("", 0.0) > 0 and set(outside) <= set(memory["norms"])


_NO_PUSH, _FAINT, _PUSHED = 0, 1, 2
_DECAYED = 1e-3
_ROUNDING = 1e-6
_FAINT_SHARE = 1e-3
"""A gradient below this share of the peak may be lost to rounding, or be noise around zero, as before a batch
normalization or at the end of training, so it need not change its weight."""


def _push_since(pairs: _Pairs, runs: Runs, memory: Memory) -> Numbers:
    """Return the strongest gradient of each weight since its last change: none, faint or full."""
    norms = pairs.gradients.l2
    memory["peak"] = max(pairs.gradients.largest_l2, memory.get("peak", 0.0))
    if runs.longest <= 1 and memory.get("paths", []) in ([], list(pairs.weights.paths)):
        # All changed, as in nearly every step: an empty memory means the same.
        memory.pop("paths", None)
        memory.pop("push", None)
        return np.zeros(len(norms))
    now = np.where(norms == 0, _NO_PUSH, np.where(norms < _FAINT_SHARE * memory["peak"], _FAINT, _PUSHED))
    before = recall(memory, pairs.weights.paths, push=_NO_PUSH)["push"]
    # The gradient of the first step already had its effect.
    push = np.where(runs.length > 1, np.maximum(before, now), _NO_PUSH)
    keep(memory, pairs.weights.paths, push=push)
    return push


_FACTS = (Fact.OUTSIDE_OPTIMIZER, Fact.FOREIGN, Fact.UNREACHED, Fact.WITHOUT_GRADIENT, Fact.FROZEN,
          Fact.BATCH_SIZE)


def _without_idle_biases(weights: Table, rows: list[int]) -> list[int]:
    """Return the rows without biases of layers that learn: a later norm or distance may cancel them."""
    if not rows:
        return rows
    still = {layer_path(weights.paths[row]) for row in rows if not weights.paths[row].endswith("bias")}
    layers = {layer_path(path) for path in weights.paths if not path.endswith("bias")}
    return [row for row in rows if not weights.paths[row].endswith("bias")
            or (path := layer_path(weights.paths[row])) in still or path not in layers]


def _why_frozen(
    subject: str, facts: dict[str, float], narrow: str, silent: str, at_zero: bool, why: str, stopped: str | None,
    slower: str,
) -> tuple[Suspicion, ...]:
    """Return why weights do not change, from facts about the optimizer and the graph, or usual causes.

    `stopped`: the weights changed before; the large update at that time, or "". `slower`: learning rate advice.
    """
    outside, foreign = about(facts, Fact.OUTSIDE_OPTIMIZER).get("", 0.0), about(facts, Fact.FOREIGN).get("", 0.0)
    unreached = about(facts, Fact.UNREACHED).get("", 0.0)
    if subject == "not moved":
        lost = f"{why}: updates are below the precision of {narrow}"
        if facts.get(Fact.OUTSIDE_OPTIMIZER) == 0 and not foreign:
            return ranked(
                Suspicion(Cause.FP16_UNDERFLOW, 0.8, lost) if narrow else
                Suspicion(Cause.LEARNING_RATE_TOO_LOW, 0.6, f"{why} despite a gradient, although an optimizer holds "
                          "it", "Raise the learning rate of their group: it is 0, or so low that rounding removes its "
                          "updates."))
        return ranked(
            Suspicion(Cause.FP16_UNDERFLOW, 0.6, lost) if narrow else None,
            Suspicion(Cause.STALE_OPTIMIZER, 0.9, f"{why}, and the optimizer holds {foreign:.0f} parameters of no "
                      "model") if foreign else Suspicion(Cause.STALE_OPTIMIZER, 0.2, why),
            Suspicion(Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.9 if outside and not foreign else 0.5,
                      f"{why}; {outside:.0f} parameters with a gradient are in no optimizer" if outside else
                      f"{why} despite a gradient"),
        )
    if stopped is not None and silent and not unreached:
        died = f"{why}; since then all outputs of {silent} are zero or negative"
        remedy = f"{sentence(slower)} and start again: units that died do not come back."
        thrown, weight = (f"{died}, and {stopped}", 0.8) if stopped else (died, 0.4)
        return ranked(
            Suspicion(Cause.LEARNING_RATE_TOO_HIGH, weight, thrown, remedy),
            Suspicion(Cause.DEAD_RELU, 0.7, died),
        )
    return ranked(
        Suspicion(Cause.DETACHED_GRAPH, 0.9 if unreached else 0.3,
                  f"{why}; the graph of the loss does not reach {unreached:.0f} parameters" if unreached else
                  f"{why}, and its gradient is exactly zero"),
        Suspicion(Cause.DEAD_RELU, 0.7, f"{why}, and all outputs of {silent} are zero or negative",
                  "Initialize biases to 0, or use LeakyReLU.") if silent and not at_zero
        else Suspicion(Cause.DEAD_RELU, 0.2, f"{why}, and its gradient is exactly zero"),
        Suspicion(Cause.CONSTANT_INITIALIZATION, 0.7 if at_zero and silent else 0.5 if at_zero else 0.1,
                  f"{why}, and one of these weights is all zeros" if at_zero else
                  f"{why}, and its gradient is exactly zero"),
        Suspicion(Cause.FROZEN_PARAMETER, 0.2, f"{why}; {about(facts, Fact.FROZEN)['']:.0f} parameters are frozen")
        if said_to_be(facts, Fact.FROZEN) else None,
    )


def _narrow_format(pairs: _Pairs, rows: list[int]) -> str:
    return next((dtype for row in rows if (dtype := pairs.weights.subjects[row].dtype) in ("bfloat16", "float16")), "")


def _against_not_moving(pairs: _Pairs, rows: list[int]) -> str:
    narrow = _narrow_format(pairs, rows)
    if narrow:
        return (f"These weights are {narrow}, whose precision is too low for small updates: keep the weights in "
                "float32 "
                "and use autocast, or raise the learning rate.")
    return ("Pass them to an optimizer created after the last change to the model, and check that "
            "the learning rate of their group is not 0.")
