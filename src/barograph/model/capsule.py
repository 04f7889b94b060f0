"""The head of a capsule: its step, and why it was saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

CAPSULE_FORMAT = 1
"""Format version of the files of a capsule. A reader rejects a higher one."""

ANOTHER_WORKER = "Another worker"
"""Prefix of the reason if a worker holds a step only because another worker does."""


class Held(StrEnum):
    """Reason for holding a step."""

    NOT_FINITE = "not finite"
    """A gradient or the loss is NaN or infinite."""
    NORM = "norm"
    """The norm of all gradients is above the bound."""
    LOSS = "loss"
    """The loss is further above its level than the bound allows."""
    SCALE = "scale"
    """The gradient scaler has lowered its scale to almost zero: each step overflows."""
    OWN = "own"
    """A function of the user requested it."""
    FINDING = "finding"
    """A finding triggered it."""

    __hash__ = str.__hash__  # as for `Kind`


@dataclass(frozen=True, slots=True)
class CapsuleHead:
    """Metadata of a capsule: the step it holds, and why.

    Attributes:
        attempt: Attempt of the run, from 0.
        worker: Worker that held the step.
        tick: Order of publication in this attempt of this worker; unique among its capsules.
        step: Step number as the user counts.
        optimizer: Optimizer whose update was withheld; "" if the script has one.
        held: Reason.
        text: The reason in one sentence.
        made_unix: Time of creation by the worker's clock.
        run_id: ID of the run.
        format: Format version of its files.
        withheld: The update was withheld. False: it was applied, and a finding had the step saved. The capsule has the
            state before the update in both cases.
        numbers: Measured numbers such as "loss", "norm" and "bound"; NaN and infinities are kept.
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
        """Name of the capsule within its run.

        Example:
            >>> CapsuleHead(0, "p0", 12, 12, "", Held.NORM, "", 0.0).name
            '0000-00000012-p0'
        """
        return f"{self.attempt:04d}-{self.tick:08d}-{self.worker}"


def head_from_json(data: Mapping[str, Any]) -> CapsuleHead:
    """Return the head stored in a metadata file.

    Raises:
        KeyError, TypeError, ValueError: The data is not a head.
    """
    numbers = {str(name): float("nan") if value is None else float(value) for name, value in data["numbers"].items()}
    return CapsuleHead(
        attempt=int(data["attempt"]), worker=str(data["worker"]), tick=int(data["tick"]), step=int(data["step"]),
        optimizer=str(data["optimizer"]), held=Held(data["held"]), text=str(data["text"]),
        made_unix=float(data["made_unix"]), run_id=str(data["run_id"]), format=int(data["format"]),
        withheld=bool(data["withheld"]), numbers=numbers,
    )
