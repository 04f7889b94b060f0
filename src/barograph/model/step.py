"""When something was recorded: an optimizer step, in a mode."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """What the script was doing."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "predict"

    __hash__ = str.__hash__  # as of `Kind`


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One optimizer step of one worker, or the evaluation that followed it.

    Attributes:
        tick: Order of publication in this attempt of this worker, from 0. Every optimizer step and every
            evaluation ticks once, so ticks of several optimizers interleave as they happened.
        number: The step as the user counts: how many steps this optimizer had made before this one,
            from 0. An evaluation carries the number of steps made so far.
        optimizer: Which optimizer made it; "" when the script has one.
        mode: Training, evaluation or prediction.
        time_unix: When the step ended, seconds since 1970 UTC, by the worker's own clock.
        skipped: A gradient scaler found the gradients not finite and made no update.
    """

    tick: int
    number: int
    optimizer: str = ""
    mode: Mode = Mode.TRAIN
    time_unix: float = 0.0
    skipped: bool = False
