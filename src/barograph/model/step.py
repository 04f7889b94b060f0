"""Steps and modes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ANOTHER_TRAINING = "#"
"""Prefix of the label of an optimizer that is the only one of a later training in the same process: "#2", "#3"."""


class Mode(StrEnum):
    """Training, evaluation or prediction."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "predict"

    __hash__ = str.__hash__  # as for `Kind`


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One optimizer step of one worker, or the evaluation that followed it.

    Attributes:
        tick: Order of publication in this attempt of this worker, from 0. Every optimizer step and every
            evaluation has its own tick, so ticks of several optimizers interleave in order of time.
        number: The step as the user counts: the number of steps of this optimizer before this one,
            from 0. For an evaluation, the number of steps so far.
        optimizer: Optimizer of the step; "" if the script has one. If a process trains several times, one
            after the other (folds, seeds, settings), "#2" is the one optimizer of the second training. An
            evaluation has that of its training, "" if that has several.
        mode: Training, evaluation or prediction.
        time_unix: When the step ended, seconds since 1970 UTC, by the worker's own clock.
        skipped: A gradient scaler found nonfinite gradients and skipped the update.
    """

    tick: int
    number: int
    optimizer: str = ""
    mode: Mode = Mode.TRAIN
    time_unix: float = 0.0
    skipped: bool = False

    @property
    def has_rivals(self) -> bool:
        """Whether the same training has other optimizers, as in adversarial training.

        Example:
            >>> Step(0, 0, "generator").has_rivals, Step(0, 0, "#2").has_rivals, Step(0, 0).has_rivals
            (True, False, False)
        """
        return bool(self.optimizer) and not is_of_later_training(self.optimizer)


def is_of_later_training(optimizer: str) -> bool:
    """Return whether a label belongs to the only optimizer of a later training."""
    return optimizer.startswith(ANOTHER_TRAINING)


def named(optimizer: str) -> str:
    """Return an optimizer's label in words.

    Example:
        >>> named("generator"), named("#2")
        ('optimizer generator', 'training 2')
    """
    if is_of_later_training(optimizer):
        return f"training {optimizer.removeprefix(ANOTHER_TRAINING)}"
    return f"optimizer {optimizer}"
