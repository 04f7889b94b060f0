"""The state of a job, folded from its events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from barograph.jobs.job_log import DAMAGED, Event


class Phase(StrEnum):
    """Phase of a job."""

    QUEUED = "queued"
    """Waits for instances."""
    RUNNING = "running"
    """Has instances: fetches data, trains, or uploads."""
    STOPPING = "stopping"
    """Its instances were asked to end."""
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self in (Phase.FINISHED, Phase.FAILED, Phase.STOPPED)


class Outcome(StrEnum):
    """How an instance ended."""

    FINISHED = "finished"
    """Its script ended with exit code 0."""
    SCRIPT = "script"
    """Its script failed, or what the user gave for it: data, requirements."""
    INTERRUPTED = "interrupted"
    """It was taken away after a notice, or asked to end."""
    LOST = "lost"
    """It disappeared."""
    FAILED = "failed"
    """Its agent could not do its work: a full disk, a store that cannot be reached."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an instance.

    Attributes:
        outcome: How it ended.
        exit_code: Exit code of the script; None if it did not end by itself.
        reason: One sentence for people.
        announced: A notice had announced it.
    """

    outcome: Outcome
    exit_code: int | None = None
    reason: str = ""
    announced: bool = False


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job.

    Attributes:
        phase: What it is doing.
        submitted_unix: Time of submission.
        since_unix: Time when the phase began.
        attempt: The current or last attempt, from 0; -1 before the first.
        handles: Instances of the attempt that were started: index to how the engine finds it again.
        ended: Instances of the attempt that ended.
        noted: Number of events of each instance's agent that were taken into account.
        intervals: Start and end of each instance so far; the end is NaN while it runs.
        interruptions: Attempts that ended because an instance was taken away or lost.
        errors: Attempts that ended by an error of the script.
        failures: Attempts one after another whose agents could not do their work.
        trained_secs: Time with instances, of earlier attempts.
        stop: Why the job was asked to stop; "" if it was not.
        reason: Why it waits, or why it ended.
        exit_code: Exit code of the script of the last attempt; None if unknown.
        users_fault: Whether a failed job failed by its script or what was given to it.
        notice: Reason of the notice of interruption of the current attempt; "" if none.
        repeated_steps: Steps that were made again after interruptions, as far as known.
        resumed_steps: Steps made before the current attempt that it did not repeat.
        damaged: Name of the first event whose file is damaged; "" if none is.
    """

    phase: Phase = Phase.QUEUED
    submitted_unix: float = math.nan
    since_unix: float = math.nan
    attempt: int = -1
    handles: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    ended: Mapping[int, Ended] = field(default_factory=dict)
    noted: Mapping[int, int] = field(default_factory=dict)
    intervals: tuple[tuple[float, float], ...] = ()
    interruptions: int = 0
    errors: int = 0
    failures: int = 0
    trained_secs: float = 0.0
    stop: str = ""
    reason: str = ""
    exit_code: int | None = None
    users_fault: bool = False
    notice: str = ""
    repeated_steps: int = 0
    resumed_steps: int = 0
    damaged: str = ""

    @property
    def open_instances(self) -> tuple[int, ...]:
        """Instances that were started and have not ended."""
        return tuple(index for index in sorted(self.handles) if index not in self.ended)


def state_after(events: Iterable[Event], state: JobState | None = None) -> JobState:
    """Return the state of a job after more events."""
    state = state or JobState()
    for event in events:
        state = _after(state, event)
        if "number" in event.data:
            state = replace(state, noted={**state.noted, int(event.data["index"]): int(event.data["number"]) + 1})
    return state


def _after(state: JobState, event: Event) -> JobState:
    data, now = event.data, event.time_unix
    match event.kind:
        case kind if kind == DAMAGED:
            return replace(state, damaged=state.damaged or str(data["name"]))
        case "submitted":
            return replace(state, submitted_unix=now, since_unix=now)
        case "waiting":
            return replace(state, reason=str(data["reason"]))
        case "starting":
            return replace(state, phase=Phase.RUNNING, since_unix=now, attempt=int(data["attempt"]), handles={},
                           ended={}, noted={}, reason="", notice="")
        case "started":
            return replace(state, handles={**state.handles, int(data["index"]): data["handle"]},
                           intervals=(*state.intervals, (now, math.nan)))
        case "notice":
            return state if data.get("advisory") else replace(state, notice=str(data["reason"]))
        case "resumed" if data["index"] == 0:
            return replace(state, repeated_steps=state.repeated_steps + int(data["repeated"]),
                           resumed_steps=int(data["steps"]))
        case "ended":
            end = Ended(Outcome(data["outcome"]), data.get("exit_code"), str(data.get("reason", "")),
                        bool(data.get("announced")))
            return replace(state, ended={**state.ended, int(data["index"]): end},
                           intervals=_closed(state.intervals, now))
        case "stop":
            return replace(state, stop=str(data["reason"]))
        case "stopping":
            return replace(state, phase=Phase.STOPPING, stop=str(data.get("reason", "")) or state.stop)
        case "requeued":
            cause = Outcome(data["cause"])
            return replace(state, phase=Phase.QUEUED, since_unix=now, handles={}, reason=str(data["reason"]),
                           interruptions=state.interruptions + (cause in (Outcome.LOST, Outcome.INTERRUPTED)),
                           errors=state.errors + (cause is Outcome.SCRIPT),
                           failures=state.failures + 1 if cause is Outcome.FAILED else 0,
                           trained_secs=state.trained_secs + max(0.0, now - state.since_unix))
        case "over":
            return replace(state, phase=Phase(data["phase"]), since_unix=now, reason=str(data["reason"]),
                           exit_code=data.get("exit_code"), users_fault=bool(data.get("users_fault")),
                           trained_secs=state.trained_secs + (
                               max(0.0, now - state.since_unix) if state.handles else 0.0))
    return state


def _closed(intervals: tuple[tuple[float, float], ...], now: float) -> tuple[tuple[float, float], ...]:
    """Close the oldest open interval: for the bill, only their number and lengths count."""
    place = next((at for at, (_, end) in enumerate(intervals) if math.isnan(end)), None)
    if place is None:
        return intervals
    return (*intervals[:place], (intervals[place][0], now), *intervals[place + 1:])
