"""Common model of a run in another tracker."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from barograph.model.items import Value

YEAR_9999_UNIX = 253_370_764_800.0
"""Later times are invalid: calendars end there."""

_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ForeignSeries(NamedTuple):
    """History of one metric in the order of logging; the arrays have equal length.

    Attributes:
        steps: Steps as logged.
        times: Seconds since 1970 UTC.
        values: Values, including NaN and infinities.
        of_machine: Whether it is a system metric.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    of_machine: bool = False


class ForeignEnd(StrEnum):
    """State of a run in the tracker."""

    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A file or URI that a run wrote or read.

    Attributes:
        name: Name in the run.
        uri: Location.
        size_bytes: -1 if unknown.
        digest: Digest by the tracker; "" if unknown.
        is_output: Whether the run wrote it; otherwise it read it.
        fetch: Copies it to a directory, or finds it locally; returns its path. None: it cannot be copied.
    """

    name: str
    uri: str
    size_bytes: int = -1
    digest: str = ""
    is_output: bool = True
    fetch: Callable[[Path], Path] | None = None


@dataclass(frozen=True, slots=True)
class ForeignExperiment:
    """A group of runs in the tracker: an experiment, a project.

    Attributes:
        name: Name.
        description: Markdown; "" if there is none.
        tags: Tag name to value.
        created_unix: Creation time; 0.0 if unknown.
    """

    name: str
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    created_unix: float = 0.0


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A run in the tracker.

    Attributes:
        tracker: "mlflow", "wandb", "aim".
        uid: ID in the tracker.
        mark: Changes with the run.
        name: Name.
        experiment: Name of its experiment; "": none.
        trial: Name of its trial; "": a trial of its own.
        end: State.
        started_unix, ended_unix: Start and end time; 0.0 if unknown.
        user, host, program, directory: "" if unknown.
        commit, branch, repository: The code.
        parameters: Parameters by name.
        tags: Tags by name.
        note: Note in Markdown.
        parent: ID of the parent run; "": none.
        files: Inputs and outputs.
        same_as: ID in Barograph of the run that it was exported from; "": none.
        series: Reads the histories of its metrics by name.
        summaries: Last values of metrics without a history, by name.
        book: Data without a field in a run, as JSON data, for an export back to the tracker.
        damage: What cannot be read, one sentence each; reading the series may add more.
    """

    tracker: str
    uid: str
    mark: str
    name: str
    series: Callable[[], Mapping[str, ForeignSeries]]
    experiment: str = ""
    trial: str = ""
    end: ForeignEnd = ForeignEnd.FINISHED
    started_unix: float = 0.0
    ended_unix: float = 0.0
    user: str = ""
    host: str = ""
    program: str = ""
    directory: str = ""
    commit: str = ""
    branch: str = ""
    repository: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    parent: str = ""
    same_as: str = ""
    summaries: Mapping[str, float] = field(default_factory=dict)
    files: Sequence[ForeignFile] = ()
    book: Mapping[str, Any] = field(default_factory=dict)
    damage: Sequence[str] = ()

    @property
    def run_id(self) -> str:
        """ID in Barograph: the same for each import.

        Example:
            >>> run = ForeignRun("mlflow", "4f2a", "", "first", dict, started_unix=1.7e9)
            >>> run.run_id == ForeignRun("mlflow", "4f2a", "changed", "renamed", dict, started_unix=1.7e9).run_id
            True
        """
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.started_unix))
        return f"{began}-{hashlib.sha256(f'{self.tracker}{chr(0)}{self.uid}'.encode()).hexdigest()[:12]}"

    @property
    def folder(self) -> str:
        """Directory below a root. It depends on the ID only, because names may change."""
        plain = self.uid if _PLAIN_ID.fullmatch(self.uid) else hashlib.sha256(self.uid.encode()).hexdigest()[:32]
        return f"{self.tracker}/{plain}"


class ForeignSource(Protocol):
    """A source of runs of a tracker.

    Attributes:
        url: Location without secrets, for messages.
        passed_over: Omissions, with counts.
        damage: What cannot be read, one sentence each.
    """

    url: str
    passed_over: dict[str, int]
    damage: list[str]

    def experiments(self) -> Sequence[ForeignExperiment]:
        """Return the experiments of the runs."""
        ...

    def runs(self) -> Sequence[ForeignRun]:
        """Return the runs, oldest first, without reading their histories."""
        ...

    def close(self) -> None:
        """Close the source."""
        ...


def time_from(seconds: object) -> float:
    """Return seconds since 1970 UTC; 0.0 if the time is missing or invalid.

    Example:
        >>> time_from(1.7e9), time_from(10**400), time_from(-1), time_from(None)
        (1700000000.0, 0.0, 0.0, 0.0)
    """
    return float(seconds) if isinstance(seconds, int | float) and 0 < seconds < YEAR_9999_UNIX else 0.0


def mark_of(*parts: object) -> str:
    """Return a digest that changes with each of its parts.

    Example:
        >>> mark_of("a", 1) == mark_of("a", 1), mark_of("a", 1) == mark_of("a", 2)
        (True, False)
    """
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
