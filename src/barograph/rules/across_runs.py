"""The rule that compares two runs that should agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind, key_from_text
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.model.summary import MOMENT_FIELDS
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import fact_value
from barograph.rules.words import number
from barograph.runs.reading.view import StepView

_IN_ORDER = (
    Kind.BATCH, Kind.INPUT, Kind.TARGET, Kind.OUTPUT, Kind.LOSS, Kind.GRADIENT, Kind.GRADIENT_CLIPPED,
    Kind.LEARNING_RATE, Kind.UPDATE, Kind.OPTIMIZER_STATE, Kind.WEIGHT, Kind.SCALAR, Kind.CUSTOM, Kind.IMPORTANCE,
    Kind.TREE,
)
"""Compared kinds, in the order in which a step computes them: the first difference is nearest to the cause."""

_COUNTS = ("count", "nan", "posinf", "neginf")
_MOST_EVIDENCE = 3


class _Difference(NamedTuple):
    """One quantity of one key that differs."""

    key: Key
    quantity: str
    here: float
    there: float
    allowed: float

    def in_words(self) -> str:
        return (f"{self.quantity} {self.here:.9g} here, {self.there:.9g} there (difference "
                f"{number(abs(self.here - self.there))}, allowed {number(self.allowed)})")


@dataclass(frozen=True, kw_only=True)
class SimilarAcrossRuns(Rule):
    """R101: A tensor differs at the same step of two runs that should agree.

    What it sees: each step that both runs recorded, matched by mode, optimizer and number, and in it each key that both
      have. For a tensor: the numbers of elements and of nonfinite elements, mean, l2 norm and extremes; for a loss or
      another number: its value. Two values agree if they differ by at most `atol + rtol * size`, where size is that of
      the tensor (for the mean, its root mean square), so that a mean near zero raises no alarm. The finding names the
      first step and, in the order in which a step computes them, the first key that differ. If both runs recorded batch
      digests, it says whether the batches were the same. Permuted elements are not seen: only summaries of tensors are
      recorded. If the other run is named when a training starts, everything that may differ is recorded, at every step
      that the budget allows; otherwise only what other rules ask for is compared.
    Why it matters: if a rerun differs, something changed that nobody meant to change: the data, the seed, a library
      default, the hardware. The first difference leads to it; later ones only follow.
    What to do: look at what produces the first key that differs. Batch: the loader, its seed and order. Output with the
      same input: that layer, its dropout and precision. Gradient: the loss. Update: the optimizer and its settings. If
      the runs agree at first and drift apart slowly, raise `rtol`.
    When it is wrong: runs that are meant to differ; nondeterministic kernels, whose differences in the last digits
      grow.
    Source: the rule SimilarAcrossRuns of Amazon SageMaker Debugger; tolerances as in numpy.allclose.
    """

    code: ClassVar[str] = "R101"
    name: ClassVar[str] = "similar-across-runs"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    other: str = parameter("", "Path or URL of the run to compare with; same as --against.")
    rtol: float = parameter(1e-5, "Allowed difference, relative to the size.", at_least=0.0)
    atol: float = parameter(1e-8, "Allowed absolute difference.", at_least=0.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Ask for everything only if there is a run to compare with: other trainings pay nothing.
        kinds = frozenset(_IN_ORDER if self.other else (Kind.LOSS,))
        return (Selection(kinds=kinds, schedule=Schedule(modes=frozenset(Mode))),)

    @property
    def other_run(self) -> str:
        return self.other

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if not self.other:
            yield Unjudged("no run to compare with; name one with barograph watch RUN --against OTHER")
            return
        there = view.beside(self.other)
        if there is None:
            yield Unjudged(f"this run and {self.other} have no recorded step in common")
            return
        _note_batches(view, there, memory)
        compared = 0
        differences: list[_Difference] = []
        for kind in _IN_ORDER:
            shared, found = self._of_kind(view, there, kind)
            compared += shared
            differences += found
        if not compared:
            yield Unjudged(f"this run and {self.other} have no key in common in any step that both recorded")
        elif differences:
            yield self._symptom(view, differences, compared, memory)

    def _symptom(self, view: StepView, differences: list[_Difference], compared: int, memory: Memory) -> Symptom:
        nearest, others = differences[0], len(differences) - 1
        first: dict[str, Any] = memory.setdefault("first", {}).setdefault(view.step.mode.value, {
            "step": view.step.number, "key": str(nearest.key), "words": nearest.in_words(),
            "others": f"{others} of {compared - 1}",
        })
        mode = "" if view.step.mode is Mode.TRAIN else f" of {view.step.mode.value}"
        batches = memory.get("batches", "")
        return Symptom(
            message=f"Step {first['step']}{mode} is the first that differs from {self.other}: {first['key']}, "
                    f"{first['words']}, rtol {number(self.rtol)}, atol {number(self.atol)}; "
                    f"{first['others']} other keys differ too."
                    f"{batches and f' {batches}'}",
            remedy=f"Look at what produces {first['key']}: {_REMEDIES.get(key_from_text(first['key']).kind, _ANY)}.",
            evidence=tuple(Evidence(item.key, view.step.number, item.quantity, item.here, item.there, item.in_words())
                           for item in differences[:_MOST_EVIDENCE]),
            since=first["step"],
        )

    def _of_kind(self, view: StepView, there: StepView, kind: Kind) -> tuple[int, list[_Difference]]:
        """Return how many keys of a kind both runs have in this step, and one difference for each key that differs."""
        found: list[_Difference] = []
        ours, theirs = view.columns(kind, histograms=False), there.columns(kind, histograms=False)
        row_of = {subject.key: row for row, subject in enumerate(theirs.subjects)}
        pairs = [(row, row_of[subject.key]) for row, subject in enumerate(ours.subjects) if subject.key in row_of]
        if pairs:
            keys = [ours.subjects[row].key for row, _ in pairs]
            found += self._of_tensors(keys, ours.moments[[row for row, _ in pairs]],
                                      theirs.moments[[row for _, row in pairs]])
        tensors = {ours.subjects[row].key for row, _ in pairs}
        one, two = view.scalars(kind), there.scalars(kind)
        numbers = [key for key in one if key in two and key not in tensors]
        found += [_Difference(key, "value", one[key], two[key], self._allowed(max(abs(one[key]), abs(two[key]))))
                  for key in numbers if not self._agree(one[key], two[key], max(abs(one[key]), abs(two[key])))]
        return len(pairs) + len(numbers), found

    def _of_tensors(self, keys: list[Key], ours: Any, theirs: Any) -> Iterator[_Difference]:
        at = {name: number for number, name in enumerate(MOMENT_FIELDS)}
        if np.array_equal(ours, theirs, equal_nan=True):
            return  # the usual case
        for key, one, two in zip(keys, ours.tolist(), theirs.tolist(), strict=True):
            for name in _COUNTS:
                if one[at[name]] != two[at[name]]:
                    yield _Difference(key, "elements" if name == "count" else f"{name} elements",
                                      one[at[name]], two[at[name]], 0.0)
                    break
            else:
                yield from self._of_numbers(key, dict(zip(MOMENT_FIELDS, one, strict=True)),
                                            dict(zip(MOMENT_FIELDS, two, strict=True)))

    def _of_numbers(self, key: Key, one: dict[str, float], two: dict[str, float]) -> Iterator[_Difference]:
        finite = one["count"] - one["nan"] - one["posinf"] - one["neginf"]
        if finite <= 0:
            return
        norm = max(math.sqrt(one["sum_sq"]), math.sqrt(two["sum_sq"]))
        extreme = max(abs(value) for item in (one, two) for value in (item["min"], item["max"]))
        for quantity, here, there, size in (
            ("l2 norm", math.sqrt(one["sum_sq"]), math.sqrt(two["sum_sq"]), norm),
            ("mean", one["sum"] / finite, two["sum"] / finite, norm / math.sqrt(finite)),
            ("smallest", one["min"], two["min"], extreme),
            ("largest", one["max"], two["max"], extreme),
        ):
            if not self._agree(here, there, size):
                yield _Difference(key, quantity, here, there, self._allowed(size))
                return

    def _allowed(self, size: float) -> float:
        return self.atol + self.rtol * size

    def _agree(self, here: float, there: float, size: float) -> bool:
        if here == there or (math.isnan(here) and math.isnan(there)):
            return True
        if not (math.isfinite(here) and math.isfinite(there)):
            return False
        return abs(here - there) <= self._allowed(size)


_ANY = "its inputs and settings"
_REMEDIES = {
    Kind.BATCH: "the data, the seed of the loader and the order of the samples",
    Kind.INPUT: "the data, the seed of the loader and the order of the samples",
    Kind.TARGET: "the labels, and the order of the samples",
    Kind.OUTPUT: "the layer's initial weights (seeds), dropout and precision, and whether its input was the same",
    Kind.LOSS: "initial weights and data (seeds), dropout, and the loss function",
    Kind.GRADIENT: "the loss, and nondeterministic kernels",
    Kind.LEARNING_RATE: "the settings of the optimizer and its schedule",
    Kind.UPDATE: "the optimizer and its settings",
    Kind.OPTIMIZER_STATE: "the optimizer, its settings, and whether one run was resumed without its state",
    Kind.WEIGHT: "the seed of the initial weights, or the optimizer",
}


def _note_batches(view: StepView, there: StepView, memory: Memory) -> None:
    """Remember whether the runs got the same batches up to the first step that differs."""
    if "first" in memory:
        return
    here, other = fact_value(view, Fact.BATCH_DIGEST), fact_value(there, Fact.BATCH_DIGEST)
    if here is None or other is None:
        return
    if here == other:
        memory.setdefault("batches", "The batches were the same up to that step.")
    elif not memory.get("batches", "").startswith("The batch of"):
        memory["batches"] = f"The batch of step {view.step.number} already differed."
