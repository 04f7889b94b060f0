"""Rules as others might write them, at the top of a module so that another process can load them."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Histogram, Selection
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.runs.reading.view import StepView

LOSS = Key(Kind.LOSS, "total")


@dataclass(frozen=True, kw_only=True)
class Counting(Rule):
    """X911: The loss is high; it says how many steps it has seen."""

    code: ClassVar[str] = "X911"
    name: ClassVar[str] = "counting"
    severity: ClassVar[Severity] = Severity.DOUBTFUL
    needs = (Selection(kinds=frozenset({Kind.LOSS})),)

    limit: float = parameter(1.0, "Highest loss that is let pass.")

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        memory["seen"] = memory.get("seen", 0) + 1
        loss = view.scalar(LOSS)
        if loss is not None and loss > self.limit:
            yield Symptom(f"High, the {memory['seen']}th.", "Lower it.",
                          (Evidence(LOSS, view.step.number, "value", loss, self.limit),))


@dataclass(frozen=True, kw_only=True)
class Looping(Counting):
    """X912: Loops for ever at step 3."""

    code = "X912"
    name = "looping"

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.number == 3:
            for _ in itertools.repeat(None):
                pass
        return ()


@dataclass(frozen=True, kw_only=True)
class Dying(Counting):
    """X913: Ends its process at step 3."""

    code = "X913"
    name = "dying"

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.number == 3:
            os._exit(7)
        return ()


@dataclass(frozen=True, kw_only=True)
class Printing(Counting):
    """X914: Prints, and reads what is typed."""

    code = "X914"
    name = "printing"

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        print("printed by a rule")
        sys.stdout.flush()
        if sys.stdin.read():
            raise AssertionError("it got something to read")
        return super().judge(view, memory)


@dataclass(frozen=True, kw_only=True)
class Binned(Counting):
    """X915: Says how many elements the histogram of a weight holds."""

    code = "X915"
    name = "binned"
    needs = (Selection(kinds=frozenset({Kind.WEIGHT}), histogram=Histogram.EXACT),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        for subject, weight in view.summaries(Kind.WEIGHT):
            yield Symptom(f"{sum(weight.exponents.values())} elements.", "Count them.",
                          (Evidence(subject.key, view.step.number, "count", 1.0, 0.0),))
