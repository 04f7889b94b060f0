"""The rule about labels outside the model's classes."""

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
    """D107: Labels do not fit the classes of the model.

    What it sees: the smallest and largest label of each step and the number of classes (the width of the output). A
      label outside the classes is reported at once. After `samples` labels per class, the rule also reports that class
      0 is the only class that never occurs, as with labels counted from 1 and an output widened by one to fit.
    Why it matters: a label outside the classes raises an error, on a GPU one that points to another line. A class that
      never occurs wastes an output and suggests that labels and predictions are counted differently.
    What to do: count classes from 0 (`labels - 1`), and give the model one output per class.
    When it is wrong: class 0 is reserved (background, padding) and never a label. Negative labels that the loss ignores
      are not checked.
    Tested on: silent on 19 small healthy trainings, including a GAN, a policy gradient, Q-learning and batches of one
      (one seed each). Digits labeled 1 to 10 with an output of 11 fire at step 3.
    Source: the PyTorch reference of CrossEntropyLoss: targets lie in [0, C).
    """

    code: ClassVar[str] = "D107"
    name: ClassVar[str] = "label-range"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    samples: int = parameter(20, "Labels per class before a missing class is reported.", at_least=1)

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
            yield Unjudged("no training step recorded labels and the number of classes")
            return
        if greatest is not None and greatest >= classes:
            yield self._beyond(view, classes, greatest)
            return
        if not counts:
            return
        loss = min(counts)
        if not labels_stand_alone(view, memory, sum(counts[loss].values())) or classes > MOST_CLASSES:
            yield Unjudged("with labels per word or pixel, not all classes need to occur")
            return
        known: dict[str, float] = memory.setdefault(loss, {})
        for name, count in counts[loss].items():
            known[str(name)] = known.get(str(name), 0.0) + count
        if sum(known.values()) < self.samples * classes:
            yield Unjudged(f"needs {int(self.samples * classes)} labels; this run has {int(sum(known.values()))}")
            return
        seen = {int(name) for name, count in known.items() if count > 0}
        if seen == set(range(1, int(classes))) and len(seen) >= _LEAST_CLASSES - 1:
            yield self._never(view, loss, int(classes), sum(known.values()))

    def _beyond(self, view: StepView, classes: float, greatest: float) -> Symptom:
        return Symptom(
            message=f"Label {int(greatest)} is out of range: the model has {int(classes)} classes, 0 to "
                    f"{int(classes) - 1}.",
            remedy=f"Count classes from 0 (labels - 1), or give the model {int(greatest) + 1} outputs.",
            evidence=(Evidence(Key(Kind.FACT, Fact.LABEL_MAX.value), view.step.number, "label_max", greatest,
                               classes - 1, f"{int(classes)} classes"),),
            subject="beyond", severity=Severity.BREAKING,
            causes=(Suspicion(Cause.LABELS_OFF_BY_ONE, 0.9 if greatest == classes else 0.6,
                              f"the largest label is {int(greatest)}, with {int(classes)} classes"),),
        )

    def _never(self, view: StepView, loss: str, classes: int, total: float) -> Symptom:
        return Symptom(
            message=f"Class 0 does not occur in {int(total)} labels; all other classes of {classes} do.",
            remedy=f"If labels start at 1, count them from 0 (labels - 1) and give the model {classes - 1} "
                   "outputs.",
            evidence=(Evidence(Key(Kind.LABEL, f"{loss}[1]"), view.step.number, "labels_of_class_0", 0.0, math.nan,
                               f"labels range from 1 to {classes - 1}"),),
            subject="never", causes=(Suspicion(Cause.LABELS_OFF_BY_ONE, 0.6, "labels start at 1, outputs at 0"),),
        )
