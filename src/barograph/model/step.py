"""When something was recorded: an optimizer step, in a mode."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ANOTHER_TRAINING = "#"
"""Begins the labels of optimizers that are the only one of a later training in the same process: "#2", "#3"."""


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
        optimizer: Which optimizer made it; "" when the script has one. Where a process trains several times, one
            after the other (folds, seeds, settings), "#2" is the one optimizer of the second training. An
            evaluation carries that of the training it belongs to, "" where that has several.
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

    @property
    def has_rivals(self) -> bool:
        """Whether other optimizers take steps in the same training, as in adversarial training.

        Example:
            >>> Step(0, 0, "generator").has_rivals, Step(0, 0, "#2").has_rivals, Step(0, 0).has_rivals
            (True, False, False)
        """
        return bool(self.optimizer) and not is_of_later_training(self.optimizer)


def is_of_later_training(optimizer: str) -> bool:
    """Return whether a label is that of the one optimizer of a later training."""
    return optimizer.startswith(ANOTHER_TRAINING)


def named(optimizer: str) -> str:
    """Return an optimizer's label as people read it.

    Example:
        >>> named("generator"), named("#2")
        ('optimizer generator', 'training 2')
    """
    if is_of_later_training(optimizer):
        return f"training {optimizer.removeprefix(ANOTHER_TRAINING)}"
    return f"optimizer {optimizer}"
