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
        number: Of the operation, in the order in which they run from the beginning of the step.
        what: `DEBUGGER`: open it there; `SCRIPT` or `NOTEBOOK`: write the operation down.
        file: Where that is written.
        where: Sentences that say where the operation was found.
        capsule: Path of the capsule's folder, which a notebook opens.
        tensors: Name of the file of tensors in it.
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
        place: Directory or URL of the run, or of the capsule's own folder.
        name: Of the capsule; "": the only one.
        result: File that the result is written to.
        opens_pickle: What only pickle can hold is opened, which can run anything.
        batch: Which of the step's batches is fed in part.
        rows: Rows of it that are fed alone; none: the whole batch is.
        remedy: What is tried, as it was typed; "": nothing, and the script is ended before the update.
        steps: How many steps are made after the held one, where something is tried.
        stop: The operation at which something is to be done; None: at none.
        alone: Of several workers, this one is made again without the others.
        framework: That made it: "torch", "keras", "jax".
        children: The script trains in processes that it starts by itself: each takes the order over.
        workers: Of several such, their ranks and the places of their capsules, first the one that was asked for.
        samples: Of another than torch: the samples that alone make the step fail are looked for, in the same process.
        as_made: `ReplayResult.as_made` of the whole step: of a part of its batch the script makes these itself, too.
        when: The function that is asked whether it holds the step, as "module:function"; "": none is.
        trusts: The user has named that function: it may be in any module, and not in one of this folder alone.
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
        """Return it as one line of JSON."""
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
    """The loss and every gradient, to the last bit."""
    SAME_EVENT = "same event"
    """What the step was held for happened again, but not with the same bits."""
    NOT_REPRODUCED = "not reproduced"
    """It did not happen."""

    __hash__ = str.__hash__  # as of `Kind`


@dataclass(frozen=True, slots=True)
class GradientSeen:
    """One gradient or result of the step, original and replayed.

    Attributes:
        path: Of the parameter, or of the result.
        equal: To the last bit.
        norm_then, norm_now: NaN where it was not finite, or not there.
    """

    path: str
    equal: bool
    norm_then: float
    norm_now: float


@dataclass(frozen=True, slots=True)
class TensorSeen:
    """A tensor at an operation.

    Attributes:
        dtype, shape: Of it.
        low, high: Least and greatest finite element; NaN where there is none.
        zeros, nan, infinite: How many elements are what.
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
        name: Of the operation, as torch calls it ("log", "div"); "" where what was handed in was not finite already.
        phase: "forward" or "backward"; "" likewise.
        module: Path of the module in which it ran; or what was handed in: a parameter, a part of the batch.
        line: Of the user's code, "train.py:12"; "" where that is not known.
        inputs, outputs: Tensors that went in and came out.
        of: The operation of the forward pass whose derivative this is a part of; "" in a forward pass.
        handed_in: It came out of no operation.
        rows: Of the batch, at which it went wrong, where each sample has a row.
        number: Of the operation, in the order in which they run from the beginning of the step.
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
class OwnAnswer:
    """The answer of the user's function for a replayed step.

    Attributes:
        holds: It holds it.
        text: Why, where it says so; "" where it does not.
        failure: Why it could not be asked, in one sentence; "" where it was.
    """

    holds: bool = False
    text: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        grade: How far it was the same.
        text: In one sentence.
        losses: What backward passes started from, then and now.
        gradients: Each, in the order of the optimizer.
        notes: What was not as it had been: threads, processor, versions, inputs that had to be put in.
        failure: Why there was no replay; "" where there was one.
        bad_operation: Where numbers stopped being finite; None where they did not, or that is not known.
        batches: How many samples each batch of the step holds.
        trial: What came of a remedy, where one was tried.
        results: What the step returned, where it is judged by that.
        guilty: The samples that alone make it fail, where they were looked for in the same process.
        as_made: What the script made as it had been, of the batch that it was fed: "calls" of its models, "losses",
            "variables".
        norm: L2 norm of all gradients together, before they were clipped; None: that is not looked at.
        own: What the user's own function says, where it was asked.
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
    own: OwnAnswer | None = None

    @property
    def finite(self) -> bool:
        """Whether the loss and all gradients were finite now, and what came out."""
        return all(math.isfinite(item.norm_now) for item in (*self.gradients, *self.results)) and all(
            math.isfinite(now) for _, now in self.losses)

    def to_text(self) -> str:
        """Return it as JSON."""
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
        tuple(data["as_made"]), data["norm"], OwnAnswer(**data["own"]) if data["own"] else None,
    )


def _trial(data: Mapping[str, Any]) -> Trial:
    return Trial(**{**data, "losses": tuple(data["losses"])})


def _bad_operation(data: Mapping[str, Any]) -> BadOperation:
    tensors = {name: tuple(TensorSeen(**{**item, "shape": tuple(item["shape"])}) for item in data[name])
               for name in ("inputs", "outputs")}
    return BadOperation(**{**data, **tensors, "rows": tuple(data["rows"])})
