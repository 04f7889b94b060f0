"""The rule about two runs that should be one."""

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
from barograph.runs.reading.view import StepView

_IN_ORDER = (
    Kind.BATCH, Kind.INPUT, Kind.TARGET, Kind.OUTPUT, Kind.LOSS, Kind.GRADIENT, Kind.GRADIENT_CLIPPED,
    Kind.LEARNING_RATE, Kind.UPDATE, Kind.OPTIMIZER_STATE, Kind.WEIGHT, Kind.SCALAR, Kind.CUSTOM, Kind.IMPORTANCE,
    Kind.TREE,
)
"""What is compared, in the order in which a step makes it: what differs first is nearest to the cause."""

_COUNTS = ("count", "nan", "posinf", "neginf")
_MOST_EVIDENCE = 3


class _Difference(NamedTuple):
    """One quantity of one key that is not the same."""

    key: Key
    quantity: str
    here: float
    there: float
    allowed: float

    def in_words(self) -> str:
        return (f"{self.quantity} {self.here:.9g} here, {self.there:.9g} there: {abs(self.here - self.there):.3g} "
                f"apart, {self.allowed:.3g} allowed")


@dataclass(frozen=True, kw_only=True)
class SimilarAcrossRuns(Rule):
    """R101: The same tensor at the same step is not the same in two runs that should agree.

    What it sees: each step that both runs recorded, joined by mode, optimizer and number, and in it each key of both:
      of a tensor the number of elements and of those that are not finite, its mean, its l2 norm and its extremes; of a
      loss or another number itself. Two agree where they lie within `atol + rtol * size`, and the size is that of the
      tensor (for the mean its root mean square), so that a mean near zero raises no alarm. It names the first step
      and, in the order in which a step computes, the first key that differ. Whether the batches were the same is told
      where both runs recorded their digests. Elements that changed places are not seen: what is recorded of a tensor
      is its summary. Where another run is named when a training starts, all that may differ is recorded, at every step
      that the budget has room for; else what other rules ask for is compared.
    Why it matters: what should repeat a run and does not has changed something nobody meant to change: the data, the
      seed, a default of a library, the hardware. The first difference leads to it; later ones only follow.
    What to do: look at what makes the first key that differs: for a batch the loader, its seed and its order; for an
      output with the same input that layer, its dropout and precision; for a gradient the loss; for an update the
      optimizer and its settings. Where the runs agree at first and drift apart slowly, raise `rtol`.
    When it is wrong: runs that are meant to differ; kernels that add in any order, whose last digits differ and grow.
    Source: the rule SimilarAcrossRuns of Amazon SageMaker Debugger; tolerances as in numpy.allclose.
    """

    code: ClassVar[str] = "R101"
    name: ClassVar[str] = "similar-across-runs"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    other: str = parameter("", "Place of the run to compare with, as a path or a URL; --against names it, too.")
    rtol: float = parameter(1e-5, "Difference that is let pass, as a share of the size.", at_least=0.0)
    atol: float = parameter(1e-8, "Difference that is let pass whatever the size.", at_least=0.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # All that is there, once it is known beside what: a training that is compared with none pays for none of it.
        kinds = frozenset(_IN_ORDER if self.other else (Kind.LOSS,))
        return (Selection(kinds=kinds, schedule=Schedule(modes=frozenset(Mode))),)

    @property
    def other_run(self) -> str:
        return self.other

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if not self.other:
            yield Unjudged("no other run is named to compare with: barograph watch RUN --against OTHER")
            return
        there = view.beside(self.other)
        if there is None:
            yield Unjudged(f"no step was recorded in both this run and {self.other}")
            return
        _note_batches(view, there, memory)
        compared = 0
        differences: list[_Difference] = []
        for kind in _IN_ORDER:
            shared, found = self._of_kind(view, there, kind)
            compared += shared
            differences += found
        if not compared:
            yield Unjudged(f"this run and {self.other} share no key in any step that both recorded")
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
                    f"{first['words']} (rtol {self.rtol:g}, atol {self.atol:g}); so do {first['others']} other keys."
                    f"{batches and f' {batches}'}",
            remedy=f"Look at what makes {first['key']}: {_REMEDIES.get(key_from_text(first['key']).kind, _ANY)}.",
            evidence=tuple(Evidence(item.key, view.step.number, item.quantity, item.here, item.there, item.in_words())
                           for item in differences[:_MOST_EVIDENCE]),
            since=first["step"],
        )

    def _of_kind(self, view: StepView, there: StepView, kind: Kind) -> tuple[int, list[_Difference]]:
        """Return how many keys of that kind both runs have in this step, and one difference of each that differs."""
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
            return  # as it should be, and nearly always is
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


_ANY = "what it is computed from, and with which settings"
_REMEDIES = {
    Kind.BATCH: "the data, the seed of the loader and the order of the samples",
    Kind.INPUT: "the data, the seed of the loader and the order of the samples",
    Kind.TARGET: "the labels, and the order of the samples",
    Kind.OUTPUT: "the layer's first weights (seeds), its dropout and its precision; and whether the input was the same",
    Kind.LOSS: "first weights and data (seeds), dropout, and the loss function itself",
    Kind.GRADIENT: "the loss, and kernels that add in any order",
    Kind.LEARNING_RATE: "the settings of the optimizer and its schedule",
    Kind.UPDATE: "the optimizer and its settings",
    Kind.OPTIMIZER_STATE: "the optimizer and its settings; whether one run was resumed without it",
    Kind.WEIGHT: "the seed of the first weights, or the optimizer that moved it",
}


def _note_batches(view: StepView, there: StepView, memory: Memory) -> None:
    """Keep in the memory whether the runs were fed the same up to the first step that differs."""
    if "first" in memory:
        return
    here, other = fact_value(view, Fact.BATCH_DIGEST), fact_value(there, Fact.BATCH_DIGEST)
    if here is None or other is None:
        return
    if here == other:
        memory.setdefault("batches", "The batches were the same up to there.")
    elif not memory.get("batches", "").startswith("The batch of"):
        memory["batches"] = f"The batch of step {view.step.number} was another already."
