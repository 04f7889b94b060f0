"""Targets and predictions passed as arrays: collected over a step or an evaluation, then counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.label_counts import MOST_CLASSES, LabelCounts
from barograph.errors import ShapeMismatch, UnsupportedCapture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.buffer import StepBuffer

_MOST_SAMPLES = 1 << 20
"""Samples of one step or one evaluation that are counted; what comes after them is not looked at."""

_PIECES = 64


class GatheredLabels:
    """The targets and predictions of each micro-batch, counted when the step or the evaluation ends."""

    def __init__(self, counts: LabelCounts) -> None:
        self._counts = counts
        self._pieces: list[NDArray[np.int64]] = []
        self._samples = 0

    def add(self, codes: NDArray[np.int64]) -> None:
        """Gather more, as far as there is room."""
        if self._samples < _MOST_SAMPLES:
            self._samples += len(codes)
            self._pieces.append(codes)
            if len(self._pieces) >= _PIECES:
                self._pieces = [np.concatenate(self._pieces)]

    def settle(self, buffer: StepBuffer, *, training: bool) -> None:
        """Put the counts into `buffer`."""
        if self._pieces:
            self._counts.tell(buffer, np.concatenate(self._pieces), training)
            self._pieces = []


def gather_labels(name: str, targets: Any, predictions: Any, buffer: StepBuffer) -> None:
    """Count labels and answers with those of the same name.

    Args:
        name: Under which they are recorded.
        targets: Class numbers, or one row of 0 and 1 for each sample (one-hot), as there is a row of predictions.
        predictions: Class numbers, or one row of scores each; of two classes, one probability each will do.
        buffer: Of the step or the evaluation.

    Raises:
        ShapeMismatch: There is not one answer, or one row of scores, for each label.
        UnsupportedCapture: The labels are no numbers of classes.
    """
    truth, answers = np.asarray(targets), np.asarray(predictions)
    if truth.ndim == answers.ndim and truth.ndim > 1 and truth.shape == answers.shape and truth.shape[-1] > 1:
        truth = truth.argmax(-1)
    if truth.ndim > 1 and truth.shape[-1] == 1 and (answers.shape == truth.shape or answers.ndim == truth.ndim):
        truth = truth[..., 0]
    scored = answers.ndim == truth.ndim + 1
    if (answers.shape[:-1] if scored else answers.shape) != truth.shape:
        raise ShapeMismatch(
            f"Got targets of shape {truth.shape} and predictions of shape {answers.shape}; "
            "pass predictions of the same shape, or with one more axis for class scores. Pass one "
            "class number per sample."
        )
    labels = _class_numbers(truth, "targets")
    if not labels.size:
        return
    classes = answers.shape[-1] if scored else 0
    if classes == 1:
        scored, answers = False, (answers[..., 0] >= 0.5).astype(np.int64)
    found = _as_if_own(answers).argmax(-1) if scored else _class_numbers(answers, "predictions")
    classes = max(classes, int(labels.max()) + 1, int(found.max()) + 1)
    # The name tells the loss apart, and the number of classes the code: it may grow from call to call.
    place = f"predictions {name} among {classes}"
    gathered = buffer.gathered.get(place)
    if not isinstance(gathered, GatheredLabels):
        gathered = buffer.gathered[place] = GatheredLabels(LabelCounts(name, classes, True, True, True))
    gathered.add((labels * classes + found).reshape(-1))


def gather_codes(name: str, classes: int, codes: NDArray[Any], buffer: StepBuffer) -> None:
    """Count labels and answers of a loss function, each pair in one number, with those of the same name.

    Args:
        name: Of the loss function.
        classes: How many there are.
        codes: label * classes + answer; of more than `MOST_CLASSES` classes the label alone; below 0: for nothing.
        buffer: Of the step or the evaluation.
    """
    place = f"codes {name} among {classes}"
    gathered = buffer.gathered.get(place)
    if not isinstance(gathered, GatheredLabels):
        told = LabelCounts(name, classes, classes <= MOST_CLASSES, classes <= MOST_CLASSES, True)
        gathered = buffer.gathered[place] = GatheredLabels(told)
    gathered.add(np.asarray(codes, np.int64).reshape(-1))


class _AsIfOwn:
    """Presents a read-only array to NumPy as writable."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array  # they are there for as long as it is
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def _as_if_own(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that is only looked at: of one that it may not write to, NumPy copies all to find the greatest.

    A copy of scores over many words is megabytes of memory that nobody has touched yet.
    """
    return array if array.flags.writeable or not array.size else np.asarray(_AsIfOwn(array))


def _class_numbers(values: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Return whole numbers from 0.

    Raises:
        UnsupportedCapture: They are not.
    """
    numbers = values.astype(np.int64) if values.dtype.kind in "biuf" else None
    if numbers is None or bool((numbers != values).any()) or bool((numbers < 0).any()):
        raise UnsupportedCapture(
            f"The {what} are not class numbers: pass integers from 0. Record other "
            "numbers with run.log."
        )
    return numbers
