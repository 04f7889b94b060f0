"""Contents of the metadata files of a run: its workers, their status and their ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

FORMAT_VERSION = 1
"""Version of `FORMAT.md` that this code writes; a reader rejects a greater one."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Metadata of a run, written once at its start.

    Attributes:
        run_id: Unique; sorts by start time.
        name: Name for people.
        created_unix: Start time, seconds since 1970 UTC.
        command: Command as typed; empty if a script attached itself.
        versions: Package or program to version, in the process that created the run.
        settings: Capture settings as JSON data, without secrets.
        format: See `FORMAT_VERSION`.
    """

    run_id: str
    name: str
    created_unix: float
    command: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Worker:
    """One training process.

    Attributes:
        name: "r0", "r1" by rank if there are ranks, else "p0", "p1" in order of registration.
        attempt: Attempt of the run, from 0.
        pid: Process number on `host`.
        host: Name of the machine.
        boot_id: ID of the current boot of `host`; "" if unknown.
        started_unix: Time of registration.
        world_size: Expected number of workers, including itself.
        versions: Package to version, in this process.
        device: Device it trains on, for people.
        started_ticks: Start time of the process in ticks since boot; 0 if unknown. Distinguishes it from
            a later process with the same number.
        run_id: ID of the run it records; "" if unknown. Its files contain it.
    """

    name: str
    attempt: int
    pid: int
    host: str
    boot_id: str
    started_unix: float
    world_size: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    started_ticks: int = 0
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the training was recorded.

    Attributes:
        parameters, parameters_seen: Trainable parameters; those with recorded values.
        gradients_seen: Trainable parameters with recorded gradients.
        modules, modules_seen: Leaf modules; those with recorded outputs.
        loss_seen: A loss was recorded.
        steps, steps_seen: Optimizer steps; those with recorded tensors.
        evaluations: Recorded evaluations.
        reasons: One sentence for each thing that was not recorded, and why.
        steps_recorded: Optimizer steps with at least one number passed to the writer, whether or not it was
            published; -1 if unknown.
    """

    parameters: int = 0
    parameters_seen: int = 0
    gradients_seen: int = 0
    modules: int = 0
    modules_seen: int = 0
    loss_seen: bool = False
    steps: int = 0
    steps_seen: int = 0
    evaluations: int = 0
    reasons: tuple[str, ...] = ()
    steps_recorded: int = -1

    @property
    def complete(self) -> bool:
        """Whether everything was recorded, as far as known."""
        return not self.reasons


TOO_SHORT_SECS = 10.0
SHORT_SECS = 120.0
"""Shorter trainings may exceed their budget: they may spend as much as a training of √(120 s · their length)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of recording.

    Attributes:
        train_secs: Time from the start of the first step to the end of the last, without pauses and waits for a CPU.
        capture_secs: CPU time of the training thread that Barograph used in that time.
        background_secs: CPU time of Barograph's own threads.
        startup_secs: Time Barograph used before the first step.
        budget: Allowed share of the training time; NaN without a budget.
        interval_steps: Interval in steps at which the budget currently allows recording of tensors.
    """

    train_secs: float = 0.0
    capture_secs: float = 0.0
    background_secs: float = 0.0
    startup_secs: float = 0.0
    budget: float = float("nan")
    interval_steps: int = 1

    @property
    def share(self) -> float:
        """Capture time as a share of the training time without capture; 0 before the first step."""
        return self.capture_secs / self.bare_secs if self.bare_secs > 0 else 0.0

    @property
    def bare_secs(self) -> float:
        """Training time without capture."""
        return max(0.0, self.train_secs - self.capture_secs)

    @property
    def too_short(self) -> bool:
        """Whether the training is too short for its share to say anything: the first steps cost most."""
        return self.bare_secs < TOO_SHORT_SECS

    @property
    def may_exceed(self) -> bool:
        """Whether the training is short enough that recording may exceed its budget."""
        return self.bare_secs < SHORT_SECS


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Heartbeat of a worker, replaced about every second.

    Attributes:
        beat: Counter; a reader considers a worker dead if it stops increasing, by the reader's clock.
        time_unix: Time by the worker's clock.
        step: Steps so far, of the optimizer with the most.
        step_secs: Median wall time of the recent steps; NaN before the first.
        loss: Last loss; NaN if none was recorded.
        chunks: Chunks published so far.
        dropped_steps: Steps dropped because the store did not keep up.
        dropped_points: Logged numbers dropped because the store did not keep up.
        cost: Cost so far.
        coverage: Coverage so far.
        problems: Errors of Barograph that were caught, the first of each cause.
    """

    beat: int
    time_unix: float
    step: int = 0
    step_secs: float = float("nan")
    loss: float = float("nan")
    chunks: int = 0
    dropped_steps: int = 0
    cost: Cost = field(default_factory=Cost)
    coverage: Coverage = field(default_factory=Coverage)
    problems: tuple[str, ...] = ()
    dropped_points: int = 0


CAUGHT = " (the script caught it, and ended by itself)"
"""Suffix of the reason of a stopped worker whose script caught the exception."""


class EndState(StrEnum):
    """State in which a worker ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    """A finding stopped it."""
    FAILED = "failed"
    """The script raised an exception, or was interrupted by a signal that Python handles."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a worker. A worker without one is running or was killed.

    Attributes:
        state: State in which it ended.
        reason: Reason for people: the last line of the exception, or the finding that stopped it.
        last: Its last heartbeat: steps, cost, coverage, problems.
    """

    state: EndState
    reason: str
    last: Heartbeat
