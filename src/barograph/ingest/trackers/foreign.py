"""A run as another tracker knows it: all of it, in the words that the trackers have in common."""

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
"""What is later can be no time: calendars end there."""

_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class ForeignSeries(NamedTuple):
    """The history of one metric; its arrays have one length, in the order in which it was logged.

    Attributes:
        steps: As they were counted.
        times: Seconds since 1970 UTC.
        values: The numbers, NaN and infinities among them.
        of_machine: They tell how the machine was used, and nobody logged them.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    of_machine: bool = False


class ForeignEnd(StrEnum):
    """How a run stands there."""

    FINISHED = "finished"
    FAILED = "failed"
    KILLED = "killed"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A file, or an address, that a run made or read.

    Attributes:
        name: By which the run calls it.
        uri: Where it is.
        size_bytes: -1 where that is not known.
        digest: As the tracker tells it; "" where it does not.
        is_output: The run made it; else it read it.
        fetch: Puts it into a folder, or finds it on this machine; returns its path. None: nothing can be copied.
    """

    name: str
    uri: str
    size_bytes: int = -1
    digest: str = ""
    is_output: bool = True
    fetch: Callable[[Path], Path] | None = None


@dataclass(frozen=True, slots=True)
class ForeignExperiment:
    """What holds runs together there: an experiment, a project.

    Attributes:
        name: Its name.
        description: In Markdown; "" where there is none.
        tags: Name to text.
        created_unix: When; 0.0 where that is not known.
    """

    name: str
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    created_unix: float = 0.0


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """One run.

    Attributes:
        tracker: "mlflow", "wandb", "aim".
        uid: Its identity there.
        mark: Tells it from itself at another time: while this is the same, nothing of it has changed.
        name: For people.
        experiment: Name of its experiment; "" where it is in none.
        trial: Name of the set of variables that it is one of; "": it is one by itself.
        end: How it stands.
        started_unix, ended_unix: When; 0.0 where that is not known.
        user, host, program, directory: Who ran what, where; "" where that is not known.
        commit, branch, repository: The code.
        parameters: By name.
        tags: By name.
        note: What was said of it, in Markdown.
        parent: Identity of the run that it is part of; "": of none.
        files: What it read and made.
        same_as: Identity here of the run that it was exported from; "": it was not.
        series: Reads the histories of its metrics, by name.
        summaries: What metrics came to that have no history, by name.
        book: What stands in no field of a run, as JSON data, for those who take it back there.
        damage: What of it cannot be read, one sentence each; more may come as the series are read.
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
        """The identity that it has here: the same each time it is imported.

        Example:
            >>> run = ForeignRun("mlflow", "4f2a", "", "first", dict, started_unix=1.7e9)
            >>> run.run_id == ForeignRun("mlflow", "4f2a", "changed", "renamed", dict, started_unix=1.7e9).run_id
            True
        """
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.started_unix))
        return f"{began}-{hashlib.sha256(f'{self.tracker}{chr(0)}{self.uid}'.encode()).hexdigest()[:12]}"

    @property
    def folder(self) -> str:
        """Where it goes below a root of runs: told by its identity alone, as a name may change."""
        plain = self.uid if _PLAIN_ID.fullmatch(self.uid) else hashlib.sha256(self.uid.encode()).hexdigest()[:32]
        return f"{self.tracker}/{plain}"


class ForeignSource(Protocol):
    """A place where a tracker keeps runs.

    Attributes:
        url: Where it is, for people, without secrets.
        passed_over: What of it is not taken, and how many of each.
        damage: What of it cannot be read, one sentence each.
    """

    url: str
    passed_over: dict[str, int]
    damage: list[str]

    def experiments(self) -> Sequence[ForeignExperiment]:
        """Return the experiments that the runs are in."""
        ...

    def runs(self) -> Sequence[ForeignRun]:
        """Return the runs, oldest first, their histories not yet read."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def time_from(seconds: object) -> float:
    """Return seconds since 1970 UTC as a run has them: 0.0 where it is no time, or none that can be.

    Example:
        >>> time_from(1.7e9), time_from(10**400), time_from(-1), time_from(None)
        (1700000000.0, 0.0, 0.0, 0.0)
    """
    return float(seconds) if isinstance(seconds, int | float) and 0 < seconds < YEAR_9999_UNIX else 0.0


def mark_of(*parts: object) -> str:
    """Return a mark that changes with each of its parts.

    Example:
        >>> mark_of("a", 1) == mark_of("a", 1), mark_of("a", 1) == mark_of("a", 2)
        (True, False)
    """
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
