"""The metadata files of a run: who writes it, how it goes, how it ended, and how much of the model was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

FORMAT_VERSION = 1
"""Version of `FORMAT.md` that this code writes; a reader refuses a greater one."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run is; written once, when it starts.

    Attributes:
        run_id: Unique, and sorts by time of start.
        name: For people.
        created_unix: When, seconds since 1970 UTC.
        command: What was run, as typed; empty when a script attached itself.
        versions: Package or program to version, of the process that made the run.
        settings: Capture settings as JSON data; no secrets.
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
    """One training process, as it declared itself.

    Attributes:
        name: "r0", "r1" by rank where there are ranks, else "p0", "p1" in the order they came.
        attempt: How often this run had been started before, from 0.
        pid: Process number on `host`.
        host: Machine.
        boot_id: Tells one life of `host` from the next; "" where it is not known.
        started_unix: When it declared itself.
        world_size: How many workers it expects to exist, itself included.
        versions: Package to version, in this process.
        device: What it trains on, for people.
        started_ticks: When the process began, in ticks since `host` did; 0 where it is not known. Tells it from
            a later process with the same number.
        run_id: Of the run it records; "" where it is not known. Its files carry it.
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
    """How much was seen of what there is.

    Attributes:
        parameters, parameters_seen: Trainable parameters there are; those whose values were recorded.
        gradients_seen: Of those, how many had their gradient recorded.
        modules, modules_seen: Leaf modules there are; those whose output was recorded.
        loss_seen: A loss was recorded.
        steps, steps_seen: Optimizer steps made; those with their tensors recorded.
        evaluations: Evaluations seen.
        reasons: One sentence for each thing that was not seen, and why.
        steps_recorded: Optimizer steps with at least one number that was handed to the writer, whether or not it was
            published; -1 where it is not known.
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
        """Whether nothing is known to have been missed."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of recording.

    Attributes:
        train_secs: Time from the first step's start to the last one's end, without pauses and waits for a processor.
        capture_secs: Of it, processor time of the training thread that Barograph has used.
        background_secs: CPU time of Barograph's own threads.
        startup_secs: Spent by Barograph before the first step.
        budget: Share of the training time it was allowed; NaN where there was no budget.
        interval_steps: Every how many steps the budget lets tensors be recorded now.
    """

    train_secs: float = 0.0
    capture_secs: float = 0.0
    background_secs: float = 0.0
    startup_secs: float = 0.0
    budget: float = float("nan")
    interval_steps: int = 1

    @property
    def share(self) -> float:
        """Capture time as a share of the time training takes without it; 0 before the first step."""
        bare_secs = self.train_secs - self.capture_secs
        return self.capture_secs / bare_secs if bare_secs > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A worker's sign of life, replaced every second or so.

    Attributes:
        beat: Counts up; a reader takes a worker for dead when it stops counting, by the reader's own clock.
        time_unix: When, by the worker's clock.
        step: Steps made so far, of the busiest optimizer.
        step_secs: Median wall time of the recent steps; NaN before the first.
        loss: Last loss; NaN where none was seen.
        chunks: Chunks published so far.
        dropped_steps: Steps dropped because the store did not keep up.
        dropped_points: Numbers that the script logged and that were dropped likewise.
        cost: So far.
        coverage: So far.
        problems: Errors of ours that were caught, first of each cause.
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
"""End of the reason of a worker that was stopped, where its script chose how it ended."""


class EndState(StrEnum):
    """How a worker ended."""

    FINISHED = "finished"
    STOPPED = "stopped"
    """A finding stopped it."""
    FAILED = "failed"
    """The script raised, or was interrupted by a signal that Python sees."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A worker's last word; a worker without one was killed, or lives.

    Attributes:
        state: How it ended.
        reason: Why, for people: the exception's last line, the finding that stopped it.
        last: Its last heartbeat: steps, cost, coverage, problems.
    """

    state: EndState
    reason: str
    last: Heartbeat
