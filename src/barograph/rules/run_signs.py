"""Rules about the run itself: how long it takes to begin, and whether what was recorded is all there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.words import number
from barograph.runs.reading.view import StepView

_WAITING = Key(Kind.VITAL, "waiting_secs")
_DROPPED = Key(Kind.VITAL, "dropped_steps")
_MINUTE = 60.0


def _vital(path: str) -> tuple[Selection, ...]:
    return (Selection(kinds=frozenset({Kind.VITAL}), include=(path,)),)


@dataclass(frozen=True, kw_only=True)
class MaxInitializationTime(Rule):
    """M108: Training takes very long to begin.

    What it sees: the time since the run was begun in which no step was made. The watcher tells it.
    Why it matters: the machines are paid for while data are fetched, unpacked and indexed, or while a worker waits for
      another that never comes.
    What to do: see what the script does before its first step (`py-spy dump --pid PID` shows where it stands); keep
      prepared data; check that all workers of a distributed training were started and reach each other.
    When it is wrong: large models and data may well take so long to load: raise `threshold`.
    Source: Amazon SageMaker Debugger's MaxInitializationTime.
    """

    code: ClassVar[str] = "M108"
    name: ClassVar[str] = "max-initialization-time"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    threshold: float = parameter(20.0, "Minutes without a first step.", above=0.0)
    recovery: int = parameter(1, "Judged signs in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return _vital("waiting_secs")

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        waited = view.scalar(_WAITING)
        if waited is None:
            yield Unjudged("training began soon")
            return
        if waited < self.threshold * _MINUTE:
            return
        text = f"{number(waited / _MINUTE)} minutes without a step"
        yield Symptom(
            message=f"Training has not begun: {text} since the run was begun.",
            remedy="See where the script stands (py-spy dump --pid PID), and whether all workers were started.",
            evidence=(Evidence(_WAITING, view.step.number, "value", waited, self.threshold * _MINUTE, text),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.3, f"{text}: data may still be fetched and prepared"),
                    Suspicion(Cause.SLOW_WORKER, 0.2, "a worker may wait for another that does not come")),
        )


@dataclass(frozen=True, kw_only=True)
class RecordingDropped(Rule):
    """M112: Barograph lost steps that it had recorded.

    What it sees: the number of recorded steps that were dropped because they came faster than the store took them in,
      as the workers themselves count. A step is dropped whole, so what is there is right.
    Why it matters: the training is unharmed, but what happened in those steps nobody can tell any more, and the other
      rules judged without them.
    What to do: write to a faster place (a local disk, then copy), record less (`preset`, `budget`, fewer whole
      tensors), or give what waits more memory (`queue_bytes`).
    When it is wrong: one outage of the store in a long run is no matter.
    Source: Barograph's own.
    """

    code: ClassVar[str] = "M112"
    name: ClassVar[str] = "recording-dropped"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    @property
    def needs(self) -> tuple[Selection, ...]:
        return _vital("dropped_steps")

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        dropped = view.scalar(_DROPPED)
        if dropped is None:
            yield Unjudged("no step was dropped")
            return
        if dropped <= 0:
            return
        yield Symptom(
            message=f"{dropped:g} recorded step{'s were' if dropped != 1 else ' was'} dropped, because the store did "
                    "not keep up.",
            remedy="Write to a faster place, record less (preset, budget), or raise queue_bytes.",
            evidence=(Evidence(_DROPPED, view.step.number, "value", dropped, 0.0, f"{dropped:g} steps so far"),),
            causes=(Suspicion("slow-store", 0.9, "the store took steps in more slowly than they came"),),
        )
