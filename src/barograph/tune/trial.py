"""One trial of a study: values of the parameters, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from barograph.tune.parameter import Value


class TrialState(StrEnum):
    """State of a trial."""

    RUNNING = "running"
    FINISHED = "finished"
    """Trained to the end; has a value."""
    STOPPED = "stopped"
    """Stopped early; `Trial.reason` says why."""
    FAILED = "failed"
    """Failed; `Trial.reason` says why."""

    @property
    def is_over(self) -> bool:
        """Whether the trial has ended."""
        return self is not TrialState.RUNNING


class Cause(StrEnum):
    """Source of a stop."""

    RULE = "rule"
    """The median rule, or successive halving: others were better at the same step."""
    FINDING = "finding"
    """A finding: the training was broken. The search treats it like the worst trial."""
    USER = "user"


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of the parameters of a trial.

    Attributes:
        proposer: What proposed them: "start" (fills the space evenly), "gp", "tpe", "cma-es", "random", "grid",
            "given" (by the user), "parent" (an earlier study), "import".
        why: Why this one, one sentence; "" if there was no choice.
        scores: Name of each model to how good it expected the trial to be; lower is better.
        bracket: Bracket of Hyperband; 0: the one that stops earliest.
    """

    proposer: str
    why: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    bracket: int = 0


@dataclass(slots=True)
class Trial:
    """One trial.

    Attributes:
        number: From 0.
        parameters: Name to value, of parameters that apply.
        origin: What proposed the parameters.
        state: State.
        values: One for each objective; empty if it has none.
        reason: Why it was stopped or failed, one sentence.
        cause: Who stopped it; None if it was not stopped.
        curve: Step to value of the first objective, of all reports.
        started_unix, ended_unix: By the clock of the process that asked for it; `ended_unix` is None while it runs.
        job: Name of its job, or of whatever else trains it; "" for a function.
        cost: What it cost, in the currency of its jobs.
        beside: Number of trials that ran when it was asked for.
        excused: Whether the search ignores that it failed: all others had failed, too, when the study was continued,
            so the script was to blame.
    """

    number: int
    parameters: Mapping[str, Value]
    origin: Origin
    state: TrialState = TrialState.RUNNING
    values: tuple[float, ...] = ()
    reason: str = ""
    cause: Cause | None = None
    curve: dict[int, float] = field(default_factory=dict)
    started_unix: float = 0.0
    ended_unix: float | None = None
    job: str = ""
    cost: float = 0.0
    beside: int = 0
    excused: bool = False

    @property
    def value(self) -> float:
        """Value of the first objective.

        Raises:
            IndexError: The trial has none.
        """
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Refitted:
    """The model of the best trial, trained on all rows.

    Attributes:
        trial: Number of the trial.
        job: The job that trained it.
        rows: Number of rows; 0: unknown.
    """

    trial: int
    job: str
    rows: int
