"""Messages between a training process and its writer process. They cross a private pipe, pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.model.manifest import EndState, Heartbeat
from barograph.model.origin import Option
from barograph.model.records import Subject
from barograph.model.trace import BatchFed
from barograph.runs.format.pending import CompactStep, Series
from barograph.runs.state.control import Done, Request
from barograph.runs.state.process import Process


@dataclass(frozen=True, slots=True)
class Assignment:
    """First message to a writer process.

    Attributes:
        url: URL of the run.
        attempt: Number of the attempt.
        rank: Rank of the training process; None without ranks.
        world_size: Number of ranks.
        versions: Versions of packages in the training process.
        settings: Result of `Settings.to_json`.
        claim: Unique claim of this worker; see `claim.new_claim`.
        again: Continue after an earlier writer process of this worker.
        process: The training process. The writer process cannot find it by its own parent, which changes when the
            training process is killed.
    """

    url: str
    attempt: int
    rank: int | None
    world_size: int
    versions: dict[str, str]
    settings: dict[str, Any]
    claim: str
    again: bool = False
    process: Process | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """Records of the training process since the last delivery.

    Attributes:
        subjects: Table that the rows of steps refer to; None if unchanged.
        steps: Steps without their subjects.
        new_series: Series that no earlier delivery had; numbered consecutively.
        points: Logged numbers, an array of `POINT`.
        status: State of the training. None: as before; it is sent twice per second.
        dropped_steps, dropped_points: Steps and points dropped since the last delivery.
        batches: Batches since the last delivery.
        dropped_batches: Batches dropped since the last delivery.
        urgent: Publish them now.
    """

    subjects: tuple[Subject, ...] | None
    steps: tuple[CompactStep, ...]
    new_series: tuple[Series, ...]
    points: NDArray[np.void]
    status: Heartbeat | None
    dropped_steps: int
    dropped_points: int
    batches: tuple[BatchFed, ...] = ()
    dropped_batches: int = 0
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """Last message of the training process."""

    state: EndState
    reason: str


@dataclass(frozen=True, slots=True)
class StopMessage:
    """Request to stop the training.

    Attributes:
        reason: One sentence for people.
        after_steps: Step after which to stop, counted from the first; 0: after the current one.
        finding_id: ID of the finding that requests it; "" for a person.
        checkpoint: Save model and optimizers first.
    """

    reason: str
    after_steps: int = 0
    finding_id: str = ""
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class ActionMessage:
    """Request of an action after which training continues.

    Attributes:
        request: The request.
        after_steps: As in `StopMessage`.
    """

    request: Request
    after_steps: int = 0


@dataclass(frozen=True, slots=True)
class Reports:
    """Results of requests, without the name of the worker, which the writer process knows."""

    done: tuple[Done, ...]


@dataclass(frozen=True, slots=True)
class Around:
    """Opened files, output and options of the training since the last message.

    Attributes:
        opened: Files opened for reading.
        beyond: Total number of opened files that are not listed.
        printed: Output by stream, in order.
        left_out: Characters of output that are missing.
        options: All options that the script's parser has parsed so far; None if unchanged.
    """

    opened: tuple[str, ...]
    beyond: int
    printed: tuple[tuple[str, str], ...]
    left_out: int
    options: dict[str, Option] | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem to show to the user immediately.

    Attributes:
        text: One sentence for people.
    """

    text: str
