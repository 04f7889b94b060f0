"""What a capsule says of itself: which step it holds, and why that was held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

CAPSULE_FORMAT = 1
"""Of the files of a capsule. A reader refuses a higher one."""

ANOTHER_WORKER = "Another worker"
"""How the reason begins where a worker holds a step only because another one does."""


class Held(StrEnum):
    """Why a step was held."""

    NOT_FINITE = "not finite"
    """A gradient, or the loss, holds NaN or an infinity."""
    NORM = "norm"
    """The norm of all gradients is beyond the bound."""
    LOSS = "loss"
    """The loss lies further above its level than the bound allows."""
    SCALE = "scale"
    """A gradient scaler has lowered its scale to nothing: step after step overflows."""
    OWN = "own"
    """A function of the user's says so."""
    FINDING = "finding"
    """A finding asked for it."""

    __hash__ = str.__hash__  # as of `Kind`


@dataclass(frozen=True, slots=True)
class CapsuleHead:
    """What a capsule is of.

    Attributes:
        attempt: Which life of the run.
        worker: Who held it.
        tick: Order of publication in this attempt of this worker; tells its capsules apart.
        step: As the user counts.
        optimizer: Whose update was withheld; "" where the script has one.
        held: Why.
        text: The same in one sentence.
        made_unix: When, by the worker's own clock.
        run_id: Of the run.
        format: Of its files.
        withheld: The update was not made. False: it was, and the step was saved because a finding asked for it. What is
            saved stood so before the update either way.
        numbers: What was measured: "loss", "norm", "bound" and the like; NaN and infinities as they are.
    """

    attempt: int
    worker: str
    tick: int
    step: int
    optimizer: str
    held: Held
    text: str
    made_unix: float
    run_id: str = ""
    format: int = CAPSULE_FORMAT
    withheld: bool = True
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the capsule is called within its run.

        Example:
            >>> CapsuleHead(0, "p0", 12, 12, "", Held.NORM, "", 0.0).name
            '0000-00000012-p0'
        """
        return f"{self.attempt:04d}-{self.tick:08d}-{self.worker}"


def head_from_json(data: Mapping[str, Any]) -> CapsuleHead:
    """Return the head of which a metadata file tells.

    Raises:
        KeyError, TypeError, ValueError: It tells of none.
    """
    numbers = {str(name): float("nan") if value is None else float(value) for name, value in data["numbers"].items()}
    return CapsuleHead(
        attempt=int(data["attempt"]), worker=str(data["worker"]), tick=int(data["tick"]), step=int(data["step"]),
        optimizer=str(data["optimizer"]), held=Held(data["held"]), text=str(data["text"]),
        made_unix=float(data["made_unix"]), run_id=str(data["run_id"]), format=int(data["format"]),
        withheld=bool(data["withheld"]), numbers=numbers,
    )
