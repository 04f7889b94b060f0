"""Rules about the run itself: a late start, and dropped records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.words import lapse
from barograph.runs.reading.view import StepView

_WAITING = Key(Kind.VITAL, "waiting_secs")
_DROPPED = Key(Kind.VITAL, "dropped_steps")
_MINUTE = 60.0


def _vital(path: str) -> tuple[Selection, ...]:
    return (Selection(kinds=frozenset({Kind.VITAL}), include=(path,)),)


@dataclass(frozen=True, kw_only=True)
class MaxInitializationTime(Rule):
    """M108: Training takes very long to start.

    What it sees: the time since the start of the run without a step, as the watcher measures it.
    Why it matters: you pay for the machines while data is fetched, unpacked and indexed, or while a worker waits for
      another that never starts.
    What to do: check what the script does before its first step (`py-spy dump --pid PID`); cache prepared data; check
      that all workers of a distributed training started and can reach each other.
    When it is wrong: large models and data may take that long to load: raise `threshold`.
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
            yield Unjudged("training started within the time limit")
            return
        if waited < self.threshold * _MINUTE:
            return
        text = f"{lapse(waited)} without a step"
        yield Symptom(
            message=f"Training has not started: {text} since the start of the run.",
            remedy="Check what the script is doing (py-spy dump --pid PID), and that all workers started.",
            evidence=(Evidence(_WAITING, view.step.number, "value", waited, self.threshold * _MINUTE, text),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.3, f"{text}: the data may still be loading"),
                    Suspicion(Cause.SLOW_WORKER, 0.2, "a worker may wait for another that never starts")),
        )


@dataclass(frozen=True, kw_only=True)
class RecordingDropped(Rule):
    """M112: Barograph dropped recorded steps.

    What it sees: the number of recorded steps that workers dropped because the store was too slow. A step is dropped as
      a whole, so the remaining records are correct.
    Why it matters: training is unharmed, but these steps cannot be analyzed, and the other rules ran without them.
    What to do: write to a faster store (a local disk, then copy), record less (`preset`, `budget`, fewer full tensors),
      or allow a larger queue (`queue_bytes`).
    When it is wrong: one outage of the store in a long run does not matter.
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
            message=f"{dropped:g} recorded step{'s were' if dropped != 1 else ' was'} dropped, because the store was "
                    "too slow.",
            remedy="Write to a faster store, record less (preset, budget), or raise queue_bytes.",
            evidence=(Evidence(_DROPPED, view.step.number, "value", dropped, 0.0, f"{dropped:g} steps so far"),),
            causes=(Suspicion("slow-store", 0.9, "the store was slower than the recording"),),
        )
