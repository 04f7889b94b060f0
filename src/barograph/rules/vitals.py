"""Rules about the life of a run: training that stands still, and a script that ended with an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.script_errors import explanation_of
from barograph.runs.reading.view import StepView

_SILENCE = Key(Kind.VITAL, "silence_secs")


@dataclass(frozen=True, kw_only=True)
class StalledTraining(Rule):
    """P106: Training stands still: no step for long.

    What it sees: how long a group of workers has made no step, by their own signs of life and not by the files that
      arrive. Beyond `threshold` seconds the training is stalled.
    Why it matters: the machines are paid for while nothing happens.
    What to do: look where the processes hang (py-spy dump --pid PID): in a collective that one worker never reached, in
      the loader, in a lock; set a time limit for collectives (init_process_group(timeout=…)).
    When it is wrong: single steps, evaluations or checkpoints that take that long: raise `threshold`.
    Source: Amazon SageMaker Debugger's StalledTrainingRule, which looks for new files.
    """

    code: ClassVar[str] = "P106"
    name: ClassVar[str] = "stalled-training"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold: float = parameter(1800.0, "Seconds without a step that are let pass.", above=0.0)
    recovery: int = parameter(1, "Judged steps in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.VITAL})),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        silence = view.scalar(_SILENCE)
        if silence is None:
            yield Unjudged("no silence of more than a minute was told")
            return
        if silence <= self.threshold:
            return
        description = f"no step was made for {silence / 60:.0f} minutes"
        yield Symptom(
            message=f"Training stands still: {description} after step {view.step.number}.",
            remedy="See where the processes hang (py-spy dump --pid PID): in a collective that a worker never reached, "
                   "in the loader, in a lock. Set a time limit for collectives: init_process_group(timeout=…).",
            evidence=(Evidence(_SILENCE, view.step.number, "silence_secs", silence, self.threshold, description),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.15, "a usual suspect"),
                    Suspicion(Cause.SLOW_WORKER, 0.15 if view.group == "r" else 0.05, "a usual suspect")),
        )


@dataclass(frozen=True, kw_only=True)
class ScriptError(Rule):
    """P107: The script ended with an error.

    What it sees: the error that a training process ended with, by its class and text. Errors that are known to come of
      one mistake in training (a tensor changed in place, labels beyond the classes, a loss that is cut off from the
      parameters, …) are told with that mistake.
    Why it matters: the run is over, and what the error says is often far from what was done.
    What to do: as the finding says; else read the traceback, whose last line in your own code is where to begin.
    When it is wrong: errors on purpose, as of a script that ends itself by raising.
    Tried on: the errors of a label beyond the classes, in a training; the other messages as literal texts.
    Source: messages of PyTorch, and the mistakes behind them as its users report them.
    """

    code: ClassVar[str] = "P107"
    name: ClassVar[str] = "script-error"
    severity: ClassVar[Severity] = Severity.BREAKING

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.VITAL})),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        failures = [key for key, value in view.scalars(Kind.VITAL).items()
                    if value and key.path.partition("[")[0] == _FAILED]
        if not failures:
            # Only the end of a run says that there was no error, and that is no step.
            yield Unjudged("the run has not ended with an error")
            return
        for key in failures:
            text = key.path[len(_FAILED) + 1 : -1] or "an error that it did not tell"
            known = explanation_of(text)
            causes = [Suspicion(Cause.SCRIPT_ERROR, 0.5, f"the script ended with {text}")]
            if known is not None:
                causes.insert(0, Suspicion(known.cause, known.weight, known.why, known.remedy))
            causes.sort(key=lambda item: -item.weight)
            yield Symptom(
                message=f"The script ended with an error after step {view.step.number}: {text}",
                remedy=known.remedy if known is not None else
                "Read the traceback from below: the last line in your own code is where to begin.",
                evidence=(Evidence(key, view.step.number, "failed", 1.0, 0.0, text),),
                subject=text[:_SUBJECT_LENGTH], causes=tuple(causes),
            )


_FAILED = "failed"
_SUBJECT_LENGTH = 80
