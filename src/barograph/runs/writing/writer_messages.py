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
        url: Of the run.
        attempt: Which life of it.
        rank: Of the training process; None where there are no ranks.
        world_size: How many ranks there are.
        versions: Package to version, in the training process.
        settings: As `Settings.to_json` gives them.
        claim: Tells this worker from every other one, see `claim.new_claim`.
        again: A writer process of this worker was there before and is gone: go on where it was.
        process: The training process. Its writer process could not tell once that was killed: its parent is another
        then.
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
    """What the training process recorded since the last one.

    Attributes:
        subjects: The table that the steps' rows speak of, where it is new; else None: as before.
        steps: Each without its subjects.
        new_series: Series that no delivery spoke of before; they are numbered on from those.
        points: Numbers that were logged, an array of `POINT`.
        status: How training goes.
        dropped_steps, dropped_points: How many more could not be taken in.
        batches: What fed the steps since.
        dropped_batches: How many more of these could not be taken in.
    """

    subjects: tuple[Subject, ...] | None
    steps: tuple[CompactStep, ...]
    new_series: tuple[Series, ...]
    points: NDArray[np.void]
    status: Heartbeat
    dropped_steps: int
    dropped_points: int
    batches: tuple[BatchFed, ...] = ()
    dropped_batches: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """Last message of the training process."""

    state: EndState
    reason: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Request to stop the training.

    Attributes:
        reason: One sentence for people.
        after_steps: Steps to be made before, counted from the training's first; 0: stop after the one under way.
        finding_id: The finding that asks; "" where a person does.
        checkpoint: Save model and optimizers first.
    """

    reason: str
    after_steps: int = 0
    finding_id: str = ""
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """Request of an action after which training continues.

    Attributes:
        request: What.
        after_steps: Steps to be made before, as in `StopAsked`.
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
        opened: Files that were opened to read.
        beyond: How often others were, in all.
        printed: By stream, in order.
        left_out: Characters that were printed and are not there.
        options: All options of the script that its parser has told of by now; None: as before.
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
