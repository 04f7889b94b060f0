"""Rules about tensors that stand still."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

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
from barograph.rules.sheets import Numbers
from barograph.rules.standstill import Runs, runs_of
from barograph.rules.suspects import about, ranked, remember_facts, said_to_be
from barograph.rules.words import lower_rate, names, number, sentence
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})
_PLANNED, _STOPPING = fact(Fact.ROUNDS_PLANNED), fact(Fact.EARLY_STOPPING)
_OF_BOOSTING = Selection(
    # Together with the loss, which is there at every step: most trainings are of networks, and miss nothing.
    kinds=frozenset({Kind.FACT, Kind.LOSS}), include=(_PLANNED.path, _STOPPING.path, TOTAL_LOSS.path),
    schedule=Schedule(every=10, steps=frozenset(range(10)), modes=_IN_TRAINING))


@dataclass(frozen=True, kw_only=True)
class UnchangedTensor(Rule):
    """W103: A tensor is exactly the same step after step.

    What it sees: all moments (counts, extremes, sum, sum of squares, sum of magnitudes) of each tensor of the
      chosen `kinds`; unchanged is a tensor whose moments agree within `rtol` and `atol` over the last `num_steps`
      steps that recorded it. With the default of exact agreement a changed tensor passes for unchanged only if
      all its sums agree to the last bit. Tensors that are zero throughout are passed over; gradients count only
      where all of them stand still (a small one may repeat itself by chance) and are not a thousandth of what they
      have been (training has then converged). Of boosted trees the loss says that later ones split nothing; where
      early stopping ends the training anyway, they are not judged.
    Why it matters: a loss that is exactly constant has come to a clamp or does not depend on the model any more;
      equal gradients mean the same batch through the same weights, again and again. Trees that split nothing cost
      time and memory, and change no answer.
    What to do: see that the loss depends on the model's output (no detach, no .item(), no argmax before it),
      that the loader moves on, and that optimizer.step() is called. Trees: end with the round before, or let them
      split more.
    When it is wrong: a loss that converged to a margin (hinge losses reach a floor exactly); training on one
      full batch with weights that are at their optimum.
    Tried on: silent on all 145 healthy trainings but those of a linear model by L-BFGS, which had converged to the last
      bit after five steps. A loss at its clamp, and one batch through weights that no optimizer holds, fire at step 9.
    Source: Amazon SageMaker Debugger's UnchangedTensor, on moments in place of whole tensors.
    """

    code: ClassVar[str] = "W103"
    name: ClassVar[str] = "unchanged-tensor"
    severity: ClassVar[Severity] = Severity.COSTLY

    num_steps: int = parameter(3, "Recorded steps over which a tensor must be the same.", at_least=2)
    rtol: float = parameter(0.0, "Relative difference that still counts as the same.", at_least=0.0)
    atol: float = parameter(0.0, "Absolute difference that still counts as the same.", at_least=0.0)
    equal_nan: bool = parameter(False, "Whether a tensor that holds NaN can be the same at all.")
    kinds: tuple[str, ...] = parameter(
        ("loss", "gradient"), "Kinds of record that are looked at.", choices=(kind.value for kind in Kind),
    )
    patience: int = parameter(8, "Judged steps in a row that must show the fault before a finding opens.", at_least=1)

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
            yield Unjudged("no step of training was recorded that the optimizer made")
            return
        stopping = view.scalar(_STOPPING)
        if stopping is not None or view.scalar(_PLANNED) is not None:
            memory["stopping"] = stopping if stopping is not None and math.isfinite(stopping) else 0.0
        if memory.get("stopping"):
            yield Unjudged(f"early stopping ends the training after {int(memory['stopping'])} rounds without gain")
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
            if runs.longest < self.num_steps or not matters:
                continue
            counts = (table.column("count") > table.column("zeros")) & (self.equal_nan | table.whole)
            unchanged = (runs.length >= self.num_steps) & counts
            if kind in GRADIENTS and not (unchanged == counts).all():
                continue
            same += [(table, int(row)) for row in np.flatnonzero(unchanged)]
            since += zip(runs.since[unchanged].tolist(), runs.length[unchanged].tolist(), strict=True)
        if waiting:
            yield Unjudged(f"fewer than {self.num_steps} steps were recorded so far that could be the same")
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
            causes=_why_still({key.kind for key in keys}, f"{names([str(key) for key in keys])} stood still"),
        )

    def _of_trees(self, same: list[tuple[Table, int]], *, since: int, steps: int, step: int) -> Symptom:
        keys = [table.subjects[row].key for table, row in same]
        all_facts = (
            f"{names([str(key) for key in keys])} did not change over {steps} rounds, from round {since} to {step}"
        )
        return Symptom(
            message=f"Further trees change nothing: {all_facts}.",
            remedy=f"End with round {since} (early_stopping_rounds, n_iter_no_change). Where the loss ought to be "
                   "lower by then, let trees split more: a smaller gamma (min_split_loss, min_gain_to_split), "
                   "min_child_weight or min_data_in_leaf.",
            evidence=tuple(self._evidence(table, row, step) for table, row in same[:3]),
            since=since, causes=(Suspicion(Cause.TREES_ADD_NOTHING, 0.8, all_facts),), severity=Severity.DOUBTFUL,
        )

    def _evidence(self, table: Table, row: int, step: int) -> Evidence:
        total = float(table.column("sum")[row])
        text = f"sum {total!r} in each of the last {self.num_steps} recorded steps"
        return Evidence(table.subjects[row].key, step, "sum", total, math.nan, text)


def _matters(gradients: Table, memory: Memory) -> bool:
    """Take the gradients' norm in; return whether it is still what it was, but for three orders of magnitude."""
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
        return ("See that the loss depends on the model's output (no .detach() or stop_gradient, .item(), "
                "argmax or clamp before it), and that the optimizer steps with the parameters of this model.")
    if Kind.GRADIENT in kinds:
        return "See that the loader gives another batch each step, and that the optimizer changes this model."
    return "See that whatever makes it is called with what changes: the batch, and the weights."


@dataclass(frozen=True, kw_only=True)
class FrozenParameter(Rule):
    """W104: A parameter never changes, although it should learn.

    What it sees: the moments of each weight, and its gradient. Where a weight is the same to the last bit over
      `num_steps` recorded steps of the optimizer, and over `num_samples` samples in them where no gradient came, it is
      one of three: its gradient is not zero and yet nothing moves
      it; its gradient is zero in every step; or it is passed over, because it got no gradient at all.
    Why it matters: part of the model keeps its first values while everything looks as if it trained.
    What to do: hand the parameter to an optimizer (and make the optimizer after the model is in its final place:
      an optimizer made before holds the old parameters); see that its group's learning rate is not 0; keep master
      weights in float32 where the weights are bfloat16 or float16, whose spacing swallows small updates.
    When it is wrong: a group that a schedule keeps at learning rate 0 for a while; units that are dead (see A101).
      Parameters without any gradient are not judged: frozen on purpose looks the same as forgotten.
    Tried on: silent on all 145 healthy trainings, with frozen layers, unused layers, LoRA, biases before batch
      normalisation and bfloat16 weights among them. A layer in no optimizer fires by step 10; so do layers behind dead
      units and layers begun at zero.
    Source: TrainCheck, OSDI 2025, on silent errors in training; the three causes are those users report.
    """

    code: ClassVar[str] = "W104"
    name: ClassVar[str] = "frozen-parameter"
    severity: ClassVar[Severity] = Severity.COSTLY

    num_steps: int = parameter(10, "Recorded steps over which a weight must be the same.", at_least=2)
    num_samples: int = parameter(
        256, "Samples in these steps that must have given no gradient, where the batch size is known.", at_least=1,
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
            yield Unjudged("no step was recorded with both weights and gradients")
            return
        if rate == 0:
            yield Unjudged("the learning rate was 0 in every recorded step")
            return
        if rate is not None:
            memory["peak_rate"] = max(rate, memory.get("peak_rate", rate))
            if rate < _DECAYED * memory["peak_rate"]:
                yield Unjudged("the learning rate has decayed so far that updates are below the spacing of numbers")
                return
        pairs = _paired(weights, gradients)
        runs = runs_of(pairs.weights, memory.setdefault("weights", {}), step=view.step.number)
        push = _push_since(pairs, runs, memory.setdefault("push", {}))
        memory["steps"] = memory.get("steps", 0) + 1
        memory.setdefault("began", view.step.number)
        if memory["steps"] < self.num_steps:
            yield Unjudged(f"{memory['steps']} steps were recorded so far in which a weight could move; it compares "
                           f"{self.num_steps}")
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
                # What moved before was neither cut off nor begun at zero: something stopped it.
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
            why, remedy = "and no gradient reaches them: it is exactly zero", (
                "See that their output reaches the loss (no .detach() or stop_gradient, no branch never taken), "
                "that their units are not dead, and that no layer around them starts at zero."
            )
        return Symptom(
            message=f"Of {len(weights)} parameters {names([weights.paths[row] for row in rows])} did not change at all "
                    f"over {self.num_steps} recorded steps, from step {since} to {step}, {why}.",
            remedy=remedy, subject=subject, since=since,
            causes=_why_frozen(subject, facts, _narrow_format(pairs, rows), silent_layer(view),
                               bool((weights.l2[rows] == 0).any()),
                               f"{names([weights.paths[row] for row in rows])} never changed"
                               if stopped is None or subject == "not moved" else
                               f"{names([weights.paths[row] for row in rows])} moved until step {since}", stopped,
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
    """The parameters that have both in this step, row for row."""

    weights: Table
    gradients: Table


def _paired(weights: Table, gradients: Table) -> _Pairs:
    if weights.paths == gradients.paths and weights.is_whole and gradients.is_whole:
        return _Pairs(weights, gradients)
    weight_whole, gradient_whole = weights.whole, gradients.whole
    at = {path: row for row, path in enumerate(gradients.paths) if gradient_whole[row]}
    rows = [(row, at[path]) for row, path in enumerate(weights.paths) if path in at and weight_whole[row]]
    # What is not finite is N101's to judge.
    return _Pairs(*(
        table_of_rows(tuple(table.subjects[pair[side]] for pair in rows), table.moments[[pair[side] for pair in rows]])
        for side, table in enumerate((weights, gradients))
    ))


def remember_norms(view: StepView, memory: Memory) -> None:
    """Take in which layers normalize, where this step recorded their outputs or weights."""
    norms: list[str] = memory.setdefault("norms", [])
    for kind in (Kind.OUTPUT, Kind.WEIGHT):
        for subject in view.columns(kind, histograms=False).subjects if kind in view.kinds else ():
            path = layer_path(subject.key.path) if kind is Kind.WEIGHT else subject.key.path
            if "Norm" in subject.layer and path not in norms:
                norms.append(path)


def is_norm_on_purpose(facts: dict[str, float], memory: Memory) -> bool:
    """Return whether the parameters in no optimizer are those of normalization layers in a body that is frozen else.

    Fine-tuning a head leaves them so: they ask for gradients only because nobody turned that off.
    """
    outside = [layer_path(path) for path in about(facts, Fact.OUTSIDE_OPTIMIZER) if path]
    return bool(outside) and about(facts, Fact.FROZEN).get("", 0.0) > 0 and set(outside) <= set(memory["norms"])


_NO_PUSH, _FAINT, _PUSHED = 0, 1, 2
_DECAYED = 1e-3
_FAINT_SHARE = 1e-3
"""A gradient smaller than this share of the greatest so far may be swallowed by the spacing of numbers, or be noise
about zero, as before a batch normalisation or at the end of training: whether it moves its weight says nothing."""


def _push_since(pairs: _Pairs, runs: Runs, memory: Memory) -> Numbers:
    """Return the strongest push a gradient gave each weight since it last changed: none, faint, or a real one."""
    norms = pairs.gradients.l2
    memory["peak"] = max(pairs.gradients.largest_l2, memory.get("peak", 0.0))
    if runs.longest <= 1 and memory.get("paths", []) in ([], list(pairs.weights.paths)):
        # All moved, as in nearly every step: to keep nothing says the same.
        memory.pop("paths", None)
        memory.pop("push", None)
        return np.zeros(len(norms))
    now = np.where(norms == 0, _NO_PUSH, np.where(norms < _FAINT_SHARE * memory["peak"], _FAINT, _PUSHED))
    before = recall(memory, pairs.weights.paths, push=_NO_PUSH)["push"]
    # The push of the first step of a run was answered: the weight is as that step left it.
    push = np.where(runs.length > 1, np.maximum(before, now), _NO_PUSH)
    keep(memory, pairs.weights.paths, push=push)
    return push


_FACTS = (Fact.OUTSIDE_OPTIMIZER, Fact.FOREIGN, Fact.UNREACHED, Fact.WITHOUT_GRADIENT, Fact.FROZEN,
          Fact.BATCH_SIZE)


def _without_idle_biases(weights: Table, rows: list[int]) -> list[int]:
    """Return the rows without biases whose layer learns: what follows may cancel them, as a distance or a norm does."""
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
    """Return why weights stay: by what is known of their optimizer and of the graph, else the usual.

    `stopped`: they moved before, and what large step there was; "": none. `slower`: the advice for the learning rate.
    """
    outside, foreign = about(facts, Fact.OUTSIDE_OPTIMIZER).get("", 0.0), about(facts, Fact.FOREIGN).get("", 0.0)
    unreached = about(facts, Fact.UNREACHED).get("", 0.0)
    if subject == "not moved":
        return ranked(
            Suspicion(Cause.FP16_UNDERFLOW, 0.6, f"{why}, and is {narrow}") if narrow else None,
            Suspicion(Cause.STALE_OPTIMIZER, 0.9, f"{why}, and the optimizer holds {foreign:.0f} parameters that no "
                      "model has") if foreign else Suspicion(Cause.STALE_OPTIMIZER, 0.2, why),
            Suspicion(Cause.PARAMETER_NOT_IN_OPTIMIZER, 0.9 if outside and not foreign else 0.5,
                      f"{why}; {outside:.0f} parameters with a gradient are in no optimizer" if outside else
                      f"{why}, although a gradient reaches it"),
        )
    if stopped is not None and silent and not unreached:
        died = f"{why}; since then {silent} answers nothing above zero to any sample"
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
        Suspicion(Cause.DEAD_RELU, 0.7, f"{why}, and {silent} answers nothing above zero to any sample") if silent
        else Suspicion(Cause.DEAD_RELU, 0.2, f"{why}, and its gradient is exactly zero"),
        Suspicion(Cause.CONSTANT_INITIALIZATION, 0.5 if at_zero and not silent else 0.1,
                  f"{why}, and a weight among them is zero throughout" if at_zero else
                  f"{why}, and its gradient is exactly zero"),
        Suspicion(Cause.FROZEN_PARAMETER, 0.2, f"{why}; {about(facts, Fact.FROZEN)['']:.0f} parameters are frozen")
        if said_to_be(facts, Fact.FROZEN) else None,
    )


def _narrow_format(pairs: _Pairs, rows: list[int]) -> str:
    return next((dtype for row in rows if (dtype := pairs.weights.subjects[row].dtype) in ("bfloat16", "float16")), "")


def _against_not_moving(pairs: _Pairs, rows: list[int]) -> str:
    narrow = _narrow_format(pairs, rows)
    if narrow:
        return (f"These weights are {narrow}, whose spacing swallows small updates: keep the weights in float32 "
                "and use autocast, or raise the learning rate.")
    return ("Hand them to an optimizer, made after the model got its final layers and place "
            "(SGD(model.parameters(), …)), and see that the learning rate of their group is not 0.")
