"""The rule about labels that are no classes, and classes that are no labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import MOST_CLASSES, counts_of, fact_value, labels_stand_alone
from barograph.runs.reading.view import StepView

_LEAST_CLASSES = 3


@dataclass(frozen=True, kw_only=True)
class LabelRange(Rule):
    """D107: Labels do not fit the classes that the model tells apart.

    What it sees: the least and the greatest label of each step beside the number of classes (the width of the output):
      a label that is no class is a fault at once. And, over at least `samples` labels for each class, whether
      class 0 is the only one that never comes, as with labels counted from 1 and an output made one wider to fit.
    Why it matters: a label beyond the classes ends in an error, on a GPU in one that names another line; a class
      that never comes wastes an output, and shows that labels and answers may be counted differently elsewhere.
    What to do: count classes from 0 (`labels − 1`), and make the output as wide as there are classes.
    When it is wrong: a class 0 that stands for nothing (background, padding) and is never a label; labels below zero
      that the loss is told to ignore are not judged.
    Tried on: silent on 19 small healthy trainings, a GAN, a policy, Q-learning and batches of one among them (one seed
      each). Digits labelled from 1 to 10 before an output of 11 fire at step 3.
    Source: the PyTorch reference of CrossEntropyLoss: targets lie in [0, C).
    """

    code: ClassVar[str] = "D107"
    name: ClassVar[str] = "label-range"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    samples: int = parameter(20, "Labels for each class before one that never came is told.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        schedule = Schedule(every=20, steps=frozenset(range(10)), modes=frozenset({Mode.TRAIN}))
        names = (Fact.CLASSES, Fact.LABEL_MIN, Fact.LABEL_MAX)
        return (
            *(Selection(kinds=frozenset({Kind.FACT}), include=(f"{name.value}*",), schedule=schedule)
              for name in names),
            Selection(kinds=frozenset({Kind.LABEL}), schedule=schedule),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        classes = fact_value(view, Fact.CLASSES)
        if classes is not None:
            memory["classes"] = classes
        classes, greatest = memory.get("classes"), fact_value(view, Fact.LABEL_MAX)
        counts = counts_of(view)
        if view.step.mode is not Mode.TRAIN or not classes or classes < 2 or not (counts or greatest is not None):
            yield Unjudged("no step of training was recorded with labels and the number of classes")
            return
        if greatest is not None and greatest >= classes:
            yield self._beyond(view, classes, greatest)
            return
        if not counts:
            return
        loss = min(counts)
        if not labels_stand_alone(view, memory, sum(counts[loss].values())) or classes > MOST_CLASSES:
            yield Unjudged("classes of words, pixels and the like need not all come")
            return
        known: dict[str, float] = memory.setdefault(loss, {})
        for name, count in counts[loss].items():
            known[str(name)] = known.get(str(name), 0.0) + count
        if sum(known.values()) < self.samples * classes:
            yield Unjudged(f"{int(sum(known.values()))} labels so far; it takes {int(self.samples * classes)}")
            return
        seen = {int(name) for name, count in known.items() if count > 0}
        if seen == set(range(1, int(classes))) and len(seen) >= _LEAST_CLASSES - 1:
            yield self._never(view, loss, int(classes), sum(known.values()))

    def _beyond(self, view: StepView, classes: float, greatest: float) -> Symptom:
        return Symptom(
            message=f"A label is {int(greatest)}, and the model tells {int(classes)} classes apart: 0 to "
                    f"{int(classes) - 1}.",
            remedy=f"Count classes from 0 (labels − 1), or make the output {int(greatest) + 1} wide.",
            evidence=(Evidence(Key(Kind.FACT, Fact.LABEL_MAX.value), view.step.number, "label_max", greatest,
                               classes - 1, f"{int(classes)} classes"),),
            subject="beyond", severity=Severity.BREAKING,
            causes=(Suspicion(Cause.LABELS_OFF_BY_ONE, 0.9 if greatest == classes else 0.6,
                              f"the greatest label is {int(greatest)} of {int(classes)} classes"),),
        )

    def _never(self, view: StepView, loss: str, classes: int, total: float) -> Symptom:
        return Symptom(
            message=f"Class 0 never came in {int(total)} labels, and all the others of {classes} did.",
            remedy=f"If classes are counted from 1, count them from 0 (labels − 1) and make the output {classes - 1} "
                   "wide.",
            evidence=(Evidence(Key(Kind.LABEL, f"{loss}[1]"), view.step.number, "labels_of_class_0", 0.0, math.nan,
                               f"labels are 1 to {classes - 1}"),),
            subject="never", causes=(Suspicion(Cause.LABELS_OFF_BY_ONE, 0.6, "labels begin with 1, answers with 0"),),
        )
