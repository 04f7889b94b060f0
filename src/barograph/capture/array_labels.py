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
"""Samples of one step or evaluation that are counted; further ones are ignored."""

_PIECES = 64


class GatheredLabels:
    """The targets and predictions of each micro-batch, counted when the step or the evaluation ends."""

    def __init__(self, counts: LabelCounts) -> None:
        self._counts = counts
        self._pieces: list[NDArray[np.int64]] = []
        self._samples = 0

    def add(self, codes: NDArray[np.int64]) -> None:
        """Add codes, up to a limit of samples."""
        if self._samples < _MOST_SAMPLES:
            self._samples += len(codes)
            self._pieces.append(codes)
            if len(self._pieces) >= _PIECES:
                self._pieces = [np.concatenate(self._pieces)]

    def settle(self, buffer: StepBuffer, *, training: bool) -> None:
        """Put the counts into `buffer`."""
        if self._pieces:
            self._counts.record(buffer, np.concatenate(self._pieces), training)
            self._pieces = []


def gather_labels(name: str, targets: Any, predictions: Any, buffer: StepBuffer) -> None:
    """Count targets and predictions with those of the same name.

    Args:
        name: Name in the record.
        targets: Class numbers, or one row of 0 and 1 for each sample (one-hot), like the predictions.
        predictions: Class numbers, or one row of scores each, or one probability each for two classes.
        buffer: Buffer of the step or the evaluation.

    Raises:
        ShapeMismatch: There is not one prediction, or one row of scores, for each target.
        UnsupportedCapture: The targets are not class numbers.
    """
    target, predicted = np.asarray(targets), np.asarray(predictions)
    if target.ndim == predicted.ndim and target.ndim > 1 and target.shape == predicted.shape and target.shape[-1] > 1:
        target = target.argmax(-1)
    if target.ndim > 1 and target.shape[-1] == 1 and (predicted.shape == target.shape or predicted.ndim == target.ndim):
        target = target[..., 0]
    scored = predicted.ndim == target.ndim + 1
    if (predicted.shape[:-1] if scored else predicted.shape) != target.shape:
        raise ShapeMismatch(
            f"Got targets of shape {target.shape} and predictions of shape {predicted.shape}; "
            "pass predictions of the same shape, or with one more axis for class scores. Pass one "
            "class number per sample."
        )
    labels = _class_numbers(target, "targets")
    if not labels.size:
        return
    classes = predicted.shape[-1] if scored else 0
    if classes == 1:
        scored, predicted = False, (predicted[..., 0] >= 0.5).astype(np.int64)
    found = _as_if_own(predicted).argmax(-1) if scored else _class_numbers(predicted, "predictions")
    classes = max(classes, int(labels.max()) + 1, int(found.max()) + 1)
    # The name identifies the loss, and the code the number of classes, which may grow.
    place = f"predictions {name} among {classes}"
    gathered = buffer.gathered.get(place)
    if not isinstance(gathered, GatheredLabels):
        gathered = buffer.gathered[place] = GatheredLabels(LabelCounts(name, classes, True, True, True))
    gathered.add((labels * classes + found).reshape(-1))


def gather_codes(name: str, classes: int, codes: NDArray[Any], buffer: StepBuffer) -> None:
    """Count targets and predictions of a loss function, each pair encoded in one integer, with those of the same name.

    Args:
        name: Name of the loss function.
        classes: Number of classes.
        codes: target * classes + prediction; only the target above `MOST_CLASSES` classes; negative: ignored.
        buffer: Buffer of the step or the evaluation.
    """
    place = f"codes {name} among {classes}"
    gathered = buffer.gathered.get(place)
    if not isinstance(gathered, GatheredLabels):
        counts = LabelCounts(name, classes, classes <= MOST_CLASSES, classes <= MOST_CLASSES, True)
        gathered = buffer.gathered[place] = GatheredLabels(counts)
    gathered.add(np.asarray(codes, np.int64).reshape(-1))


class _AsIfOwn:
    """Presents a read-only array to NumPy as writable."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array  # keeps the memory alive
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def _as_if_own(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that is only read. NumPy copies a read-only array for argmax.

    For scores over a vocabulary the copy has megabytes.
    """
    return array if array.flags.writeable or not array.size else np.asarray(_AsIfOwn(array))


def _class_numbers(values: NDArray[Any], what: str) -> NDArray[np.int64]:
    """Return integers from 0.

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
