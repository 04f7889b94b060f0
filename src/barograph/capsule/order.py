"""The messages between `barograph replay` and the script's process."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from barograph.capsule.guilty import Guilty
from barograph.capsule.remedies import Trial

REPLAY_VARIABLE = "BAROGRAPH_REPLAY"
"""Environment variable that holds a `ReplayOrder` as JSON."""


DEBUGGER, SCRIPT, NOTEBOOK = "debugger", "script", "notebook"


@dataclass(frozen=True, slots=True)
class StopAt:
    """An operation to stop at, and what to do there.

    Attributes:
        number: Number of the operation in order of execution, from the start of the step.
        what: `DEBUGGER`: open it there; `SCRIPT` or `NOTEBOOK`: write the operation to a file.
        file: The file.
        where: Sentences about where the operation was found.
        capsule: Path of the capsule's folder, which a notebook opens.
        tensors: Name of its tensor file.
    """

    number: int
    what: str
    file: str = ""
    where: tuple[str, ...] = ()
    capsule: str = ""
    tensors: str = ""


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """The step to replay, and how.

    Attributes:
        place: Directory or URL of the run, or of the capsule itself.
        name: Name of the capsule; "": the only one.
        result: File for the result.
        opens_pickle: Unpickle objects, which can run any code.
        batch: Index of the step's batch that is reduced to `rows`.
        rows: Rows to feed; empty: the whole batch.
        remedy: Remedy to try, as typed; "": none, and the script exits before the update.
        steps: Number of steps after the saved one, when a remedy is tried.
        stop: Operation to stop at; None: none.
        alone: Replay this one of several workers without the others.
        framework: Framework of the step: "torch", "keras", "jax".
        children: The script trains in processes that it starts itself; each of them takes over the order.
        workers: Ranks and capsule paths of such processes, the requested one first.
        samples: For frameworks other than torch: find the samples that make the step fail, in the same process.
        as_made: `ReplayResult.as_made` of the whole step: the script computes these values for a part of its batch,
            too.
        when: User function that decides whether the step fails, as "module:function"; "": none.
        trusts: The user named that function, so it may be in any module, not only in this folder.
    """

    place: str
    name: str
    result: str
    opens_pickle: bool = False
    batch: int = 0
    rows: tuple[int, ...] = ()
    remedy: str = ""
    steps: int = 0
    stop: StopAt | None = None
    alone: bool = False
    framework: str = "torch"
    samples: bool = False
    children: bool = False
    workers: tuple[tuple[int, str], ...] = ()
    as_made: tuple[str, ...] = ()
    when: str = ""
    trusts: bool = False

    def to_text(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))


def order_from_text(text: str) -> ReplayOrder:
    """Parse the text of `ReplayOrder.to_text`."""
    data = json.loads(text)
    stop = data["stop"]
    workers = tuple((rank, place) for rank, place in data["workers"])
    return ReplayOrder(**{**data, "rows": tuple(data["rows"]), "workers": workers,
                          "as_made": tuple(data["as_made"]),
                          "stop": StopAt(**{**stop, "where": tuple(stop["where"])}) if stop else None})


class Grade(StrEnum):
    """How exactly a replay matched."""

    BITWISE = "bitwise"
    """The loss and every gradient are identical to the last bit."""
    SAME_EVENT = "same event"
    """The failure happened again, but not with the same bits."""
    NOT_REPRODUCED = "not reproduced"
    """The failure did not happen."""

    __hash__ = str.__hash__  # as for `Kind`


@dataclass(frozen=True, slots=True)
class GradientSeen:
    """One gradient or result of the step, original and replayed.

    Attributes:
        path: Path of the parameter, or of the result.
        equal: Identical to the last bit.
        norm_then, norm_now: NaN if non-finite or missing.
    """

    path: str
    equal: bool
    norm_then: float
    norm_now: float


@dataclass(frozen=True, slots=True)
class TensorSeen:
    """A tensor at an operation.

    Attributes:
        dtype, shape: Type and shape.
        low, high: Smallest and largest finite element; NaN if there is none.
        zeros, nan, infinite: Numbers of such elements.
    """

    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    zeros: int
    nan: int
    infinite: int


@dataclass(frozen=True, slots=True)
class BadOperation:
    """The operation that made values non-finite.

    Attributes:
        name: Torch's name of the operation ("log", "div"); "" if an input was already non-finite.
        phase: "forward" or "backward"; "" if an input was already non-finite.
        module: Path of the running module; or the input: a parameter, a part of the batch.
        line: Line of the user's code, "train.py:12"; "" if unknown.
        inputs, outputs: Input and output tensors.
        of: Operation of the forward pass that this is a derivative of; "" in a forward pass.
        handed_in: It is an input, not an operation.
        rows: Rows of the batch that are bad, if each sample has a row.
        number: Number of the operation in order of execution, from the start of the step.
    """

    name: str
    phase: str
    module: str
    line: str
    inputs: tuple[TensorSeen, ...]
    outputs: tuple[TensorSeen, ...]
    of: str = ""
    handed_in: bool = False
    rows: tuple[int, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class OwnResult:
    """The answer of the user's function for a replayed step.

    Attributes:
        holds: The function returned a true value.
        text: The reason that it returned; "" if none.
        failure: Why it could not be called, in one sentence; "" if it was.
    """

    holds: bool = False
    text: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        grade: How closely the replay matches.
        text: The result in one sentence.
        losses: Roots of backward passes, original and replayed.
        gradients: Gradients in the order of the optimizer.
        notes: Differences from the original: threads, processor, versions, inputs that had to be replaced.
        failure: Why there was no replay; "" if there was one.
        bad_operation: Operation that made values non-finite; None if there is none or it is unknown.
        batches: Number of samples in each batch of the step.
        trial: Result of a remedy, if one was tried.
        results: Return values of the step, if it is judged by them.
        guilty: Samples that make it fail on their own, if they were searched in the same process.
        as_made: Values that the script computed identically from the batch: "calls" of its models, "losses",
            "variables".
        norm: L2 norm of all gradients before clipping; None: not measured.
        own: Answer of the user's function, if it was called.
    """

    grade: Grade
    text: str
    losses: tuple[tuple[float, float], ...] = ()
    gradients: tuple[GradientSeen, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str = ""
    bad_operation: BadOperation | None = None
    batches: tuple[int, ...] = ()
    trial: Trial | None = None
    results: tuple[GradientSeen, ...] = ()
    guilty: Guilty | None = None
    as_made: tuple[str, ...] = ()
    norm: float | None = None
    own: OwnResult | None = None

    @property
    def finite(self) -> bool:
        """Whether the replayed loss, gradients and results are finite."""
        return all(math.isfinite(item.norm_now) for item in (*self.gradients, *self.results)) and all(
            math.isfinite(now) for _, now in self.losses)

    def to_text(self) -> str:
        """Return JSON."""
        return json.dumps(asdict(self))


def result_from_text(text: str) -> ReplayResult:
    """Parse the text of `ReplayResult.to_text`."""
    data = json.loads(text)
    return ReplayResult(
        Grade(data["grade"]), data["text"], tuple((then, now) for then, now in data["losses"]),
        tuple(GradientSeen(**item) for item in data["gradients"]), tuple(data["notes"]), data["failure"],
        None if data["bad_operation"] is None else _bad_operation(data["bad_operation"]),
        tuple(data["batches"]), _trial(data["trial"]) if data["trial"] else None,
        tuple(GradientSeen(**item) for item in data["results"]),
        Guilty(**{**data["guilty"], "rows": tuple(data["guilty"]["rows"])}) if data["guilty"] else None,
        tuple(data["as_made"]), data["norm"], OwnResult(**data["own"]) if data["own"] else None,
    )


def _trial(data: Mapping[str, Any]) -> Trial:
    return Trial(**{**data, "losses": tuple(data["losses"])})


def _bad_operation(data: Mapping[str, Any]) -> BadOperation:
    tensors = {name: tuple(TensorSeen(**{**item, "shape": tuple(item["shape"])}) for item in data[name])
               for name in ("inputs", "outputs")}
    return BadOperation(**{**data, **tensors, "rows": tuple(data["rows"])})
