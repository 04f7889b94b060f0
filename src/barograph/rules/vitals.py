"""Rules about the state of a run: stalled training, and a script that failed."""

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
from barograph.rules.words import sentence
from barograph.runs.reading.view import StepView

_SILENCE = Key(Kind.VITAL, "silence_secs")


@dataclass(frozen=True, kw_only=True)
class StalledTraining(Rule):
    """P106: Training stalled: no step for a long time.

    What it sees: the time since the last step of a group of workers, from their heartbeats and not from arriving files.
      Beyond `threshold` seconds, the training is stalled.
    Why it matters: you pay for the machines while nothing happens.
    What to do: check where the processes hang (py-spy dump --pid PID): in a collective that a worker never reached, in
      the loader, in a lock; set a timeout for collectives (init_process_group(timeout=…)).
    When it is wrong: single steps, evaluations or checkpoints that take that long: raise `threshold`.
    Source: Amazon SageMaker Debugger's StalledTrainingRule, which looks for new files.
    """

    code: ClassVar[str] = "P106"
    name: ClassVar[str] = "stalled-training"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold: float = parameter(1800.0, "Allowed seconds without a step.", above=0.0)
    recovery: int = parameter(1, "Consecutive evaluated steps without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.VITAL})),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        silence = view.scalar(_SILENCE)
        if silence is None:
            yield Unjudged("no gap of more than a minute was recorded")
            return
        if silence <= self.threshold:
            return
        description = f"no step for {silence / 60:.0f} minutes"
        yield Symptom(
            message=f"Training stalled: {description} after step {view.step.number}.",
            remedy="Check where the processes hang (py-spy dump --pid PID): in a collective that a worker never "
                   "reached, "
                   "in the loader, in a lock. Set a timeout for collectives: init_process_group(timeout=…).",
            evidence=(Evidence(_SILENCE, view.step.number, "silence_secs", silence, self.threshold, description),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.15, "a common cause"),
                    Suspicion(Cause.SLOW_WORKER, 0.15 if view.group == "r" else 0.05, "a common cause")),
        )


@dataclass(frozen=True, kw_only=True)
class ScriptError(Rule):
    """P107: The script ended with an error.

    What it sees: the class and the message of the error that ended a training process. Errors with a known cause in
      training (a tensor modified in place, labels outside the classes, a loss detached from the parameters, …) are
      reported with that cause.
    Why it matters: the run is over, and the error message is often far from the mistake.
    What to do: see the finding; otherwise read the traceback, starting at the last line in your own code.
    When it is wrong: errors on purpose, such as a script that raises to exit. Ctrl-C is not an error.
    Tested on: the errors of a label outside the classes, in a training; the other messages as literal strings.
    Source: messages of PyTorch, and the mistakes behind them that users report.
    """

    code: ClassVar[str] = "P107"
    name: ClassVar[str] = "script-error"
    severity: ClassVar[Severity] = Severity.BREAKING

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.VITAL})),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        failures = [key for key, value in view.scalars(Kind.VITAL).items()
                    if value and key.path.partition("[")[0] == _FAILED and not key.path.startswith(_INTERRUPTED)]
        if not failures:
            # Only the end of a run proves that there was no error, and it is not a step.
            yield Unjudged("the run has not ended with an error")
            return
        for key in failures:
            text = key.path[len(_FAILED) + 1 : -1] or "an unknown error"
            known = explanation_of(text)
            ended = f"the script ended with {text}"
            causes = [Suspicion(Cause.SCRIPT_ERROR, 0.5, ended)]
            if known is not None:
                causes.insert(0, Suspicion(known.cause, known.weight, known.why, known.remedy))
            causes.sort(key=lambda item: -item.weight)
            yield Symptom(
                message=sentence(ended),
                remedy=known.remedy if known is not None else
                "Start at the last line of your own code in the traceback (barograph show RUN --output).",
                evidence=(Evidence(None, view.step.number, "failed", 1.0, 0.0, ended),),
                subject=text[:_SUBJECT_LENGTH], causes=tuple(causes),
            )


_FAILED = "failed"
_INTERRUPTED = f"{_FAILED}[KeyboardInterrupt"
_SUBJECT_LENGTH = 80
