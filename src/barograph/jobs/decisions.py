"""The next action of a controller for a job: a pure function of state, specification and time.

The controller of real jobs and the simulator call the same function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Ended, JobState, Outcome, Phase
from barograph.watch.figures import duration

MOST_FAILURES = 3
"""Attempts one after another that fail although their instances are there: another one would fail too."""
_PAUSES_SECS = (0.0, 5.0, 60.0)
"""Time before an attempt, by the number of failures before it: what cannot be reached may be back."""
_BEGIN_SECS = 60.0
"""An agent that is gone so soon, and said only that it is ready, would be gone again and again."""
_RANKS = {Outcome.LOST: 0, Outcome.FAILED: 1, Outcome.SCRIPT: 3, Outcome.INTERRUPTED: 4}
_ANNOUNCED_RANK = 2


@dataclass(frozen=True, slots=True)
class Start:
    """Start all instances of an attempt.

    Attributes:
        attempt: Number of the attempt, from 0.
    """

    attempt: int


@dataclass(frozen=True, slots=True)
class End:
    """Ask the open instances to save and to end.

    Attributes:
        reason: Why the job stops; "" if it goes on with another attempt.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Wait for instances for another attempt.

    Attributes:
        cause: What ended this one.
        reason: One sentence for people.
    """

    cause: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """End the job.

    Attributes:
        phase: How it ended.
        reason: One sentence for people; "" if there is nothing to explain.
        exit_code: Exit code of the script; None if unknown.
        users_fault: Whether the script failed, or what was given to it.
    """

    phase: Phase
    reason: str = ""
    exit_code: int | None = None
    users_fault: bool = False


Decision = Start | End | Requeue | Finish


def decide(state: JobState, spec: JobSpec, now_unix: float) -> Decision | None:
    """Return what to do next; None: wait for more events."""
    if state.phase.is_over:
        return None
    if state.damaged:
        return Finish(Phase.FAILED, f"One of its events is damaged, so it cannot go on. Submit it again "
                                    f"({state.damaged}).")
    if state.phase is Phase.QUEUED:
        return _of_queued(state, spec, now_unix)
    missing = spec.instances - len(state.handles.keys() | state.ended.keys())
    will_start = state.phase is Phase.RUNNING and missing and not _failed(state.ended)
    if state.open_instances or will_start:
        return _of_running(state, spec, now_unix)
    return _of_ended(state, spec)


def _of_queued(state: JobState, spec: JobSpec, now_unix: float) -> Decision | None:
    if state.stop:
        return Finish(Phase.STOPPED, _sentence("Stopped", state.stop))
    if now_unix - state.submitted_unix >= spec.max_wait_secs:
        why = f" {state.reason}" if state.reason else ""
        return Finish(Phase.FAILED, f"Not finished within {duration(spec.max_wait_secs)} (max-wait).{why} "
                                    "Raise --max-wait to wait longer.")
    if now_unix - state.since_unix < _PAUSES_SECS[min(state.failures, len(_PAUSES_SECS) - 1)]:
        return None
    return Start(state.attempt + 1)


def _of_running(state: JobState, spec: JobSpec, now_unix: float) -> Decision | None:
    if state.phase is Phase.STOPPING:
        return None
    if state.stop:
        return End(state.stop)
    if state.trained_secs + now_unix - state.since_unix >= spec.max_runtime_secs:
        return End(f"it reached max-runtime ({duration(spec.max_runtime_secs)}); raise it to train longer")
    if now_unix - state.submitted_unix >= spec.max_wait_secs:
        return End(f"it reached max-wait ({duration(spec.max_wait_secs)}); raise it to wait longer")
    if _failed(state.ended):
        return End()  # the others cannot go on without it
    return None


def _of_ended(state: JobState, spec: JobSpec) -> Decision:
    if not _failed(state.ended):
        if len(state.ended) < spec.instances:  # it was stopped before all were started
            return Finish(Phase.STOPPED, _sentence("Stopped", state.stop))
        return Finish(Phase.FINISHED, exit_code=0)
    which, end = _cause(state.ended)
    who = f"Instance {which + 1} of {spec.instances}: " if spec.instances > 1 else ""
    reason = f"{who}{end.reason}"
    if state.stop:
        return Finish(Phase.STOPPED, _sentence("Stopped", state.stop), end.exit_code)
    if end.outcome is Outcome.SCRIPT:
        if state.errors < spec.retries:
            return Requeue(Outcome.SCRIPT, reason)
        return Finish(Phase.FAILED, reason, end.exit_code, users_fault=True)
    if end.outcome is Outcome.FAILED and state.failures + 1 >= MOST_FAILURES:
        return Finish(Phase.FAILED, f"{reason} That happened {MOST_FAILURES} times.")
    if spec.max_restarts is not None and state.interruptions >= spec.max_restarts:
        return Finish(Phase.FAILED, f"{reason} It was restarted {spec.max_restarts} times (max-restarts).")
    return Requeue(end.outcome, reason)


def end_of_lost(why: str, said: Sequence[str], secs: float) -> Ended:
    """Return how a lost instance ended.

    Args:
        why: Why it is gone.
        said: Kinds of the events that its agent wrote before.
        secs: Time since the start of the attempt.
    """
    if not said:
        return Ended(Outcome.FAILED, None, f"The instance ended before it was ready. {why}")
    if set(said) <= {"ready"} and secs < _BEGIN_SECS:
        return Ended(Outcome.FAILED, None, f"The instance ended before it began to work. {why}")
    return Ended(Outcome.LOST, None, f"The instance was lost. {why}")


def _failed(ended: Mapping[int, Ended]) -> dict[int, Ended]:
    return {index: end for index, end in ended.items() if end.outcome is not Outcome.FINISHED}


def _cause(ended: Mapping[int, Ended]) -> tuple[int, Ended]:
    """Return the instance that ended the attempt: a lost one, else one that was taken away after a notice, else one
    whose script failed, else one that was asked to end.

    The scripts of the others fail because a peer is gone: then that peer is the cause.
    """
    return min(_failed(ended).items(), key=lambda item: (
        _ANNOUNCED_RANK if item[1].announced else _RANKS[item[1].outcome], item[0]))


def _sentence(what: str, why: str) -> str:
    return f"{what}: {why}." if why else f"{what}."
