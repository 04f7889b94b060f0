"""What a controller does next with a job: a pure function of its state, its description and the time.

The controller of real jobs and the simulator call the same function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Ended, JobState, Outcome, Phase
from barograph.watch.figures import duration

MOST_FAILURES = 3
"""Attempts one after another that fail although their instances are there: another one would fail too."""


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
    if state.open_instances or (len(state.handles) < spec.instances and not state.ended):
        return _of_running(state, spec, now_unix)
    return _of_ended(state, spec, now_unix)


def _of_queued(state: JobState, spec: JobSpec, now_unix: float) -> Decision:
    if state.stop:
        return Finish(Phase.STOPPED, _sentence("Stopped", state.stop))
    if now_unix - state.submitted_unix >= spec.max_wait_secs:
        why = f" {state.reason}" if state.reason else ""
        return Finish(Phase.FAILED, f"Not finished within {duration(spec.max_wait_secs)} (max-wait).{why}")
    return Start(state.attempt + 1)


def _of_running(state: JobState, spec: JobSpec, now_unix: float) -> Decision | None:
    if state.phase is Phase.STOPPING:
        return None
    if state.stop:
        return End(state.stop)
    if state.trained_secs + now_unix - state.since_unix >= spec.max_runtime_secs:
        return End(f"it reached max-runtime ({duration(spec.max_runtime_secs)})")
    if now_unix - state.submitted_unix >= spec.max_wait_secs:
        return End(f"it reached max-wait ({duration(spec.max_wait_secs)})")
    if any(end.outcome is not Outcome.FINISHED for end in state.ended.values()):
        return End()  # the others cannot go on without it
    return None


def _of_ended(state: JobState, spec: JobSpec, now_unix: float) -> Decision:
    if all(end.outcome is Outcome.FINISHED for end in state.ended.values()):
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


def _cause(ended: Mapping[int, Ended]) -> tuple[int, Ended]:
    """Return the instance that ended the attempt: a failed script, else a lost instance, else an interrupted one.

    The scripts of the others fail because a peer is gone: of a lost instance and a failed script, the lost instance is
    the cause.
    """
    order = (Outcome.LOST, Outcome.FAILED, Outcome.SCRIPT, Outcome.INTERRUPTED)
    failed = [item for item in ended.items() if item[1].outcome is not Outcome.FINISHED]
    return min(failed, key=lambda item: (order.index(item[1].outcome), item[0]))


def _sentence(what: str, why: str) -> str:
    return f"{what}: {why}." if why else f"{what}."
