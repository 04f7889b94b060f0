"""Counts targets and predictions from the arguments of loss functions, or from the script."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from barograph.capture.buffer import StepBuffer
from barograph.capture.data_wants import DataWants
from barograph.capture.label_counts import LEFT_OUT, MOST_CLASSES, LabelCounts, add_range
from barograph.capture.session import Session
from barograph.capture.torch.gathering import evenly, gather, gather_share, wide
from barograph.capture.torch.loss_arguments import LossArguments
from barograph.errors import ShapeMismatch, UnsupportedCapture
from barograph.model.facts import Fact, fact

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_LABELS = 4096
_MOST_LOGITS = 1 << 18
_LEAST_ROWS = 256
_MOST_LOGITS_SUMMED = 1 << 16
_LEAST_ROWS_SUMMED = 32
_LEAST_LOGITS = 8
_UNDECIDED = (0.3, 0.7)
_MOST_UNDECIDED = 0.01
_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 3e-2}
_LEAST_TOLERANCE = 1e-3


class LabelRecorder:
    """Counts targets and predictions.

    If there are many (an image of labels, a sequence of tokens), 4096 evenly spread ones are counted.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def classes(self, name: str, given: LossArguments, wants: DataWants, buffer: StepBuffer) -> None:
        """Record the inputs of a loss of several classes: class numbers, or class probabilities."""
        outputs, target = given.outputs, given.target
        axis = 0 if outputs.dim() == 1 else 1
        if name == "kl_div" and outputs.dim() != 2:
            return  # the axis of the classes is unknown
        classes = outputs.shape[axis] if outputs.dim() else 0
        if classes < 2 or not target.numel():
            return
        samples = outputs.numel() // classes
        places = evenly(samples, max(_LEAST_ROWS, min(_MOST_LABELS, _MOST_LOGITS // classes)), outputs.device)
        if wants.rows:
            most = max(_LEAST_ROWS_SUMMED, min(_MOST_LABELS, _MOST_LOGITS_SUMMED // classes))
            _record_likeness(name, _rows(outputs, axis, evenly(samples, most, outputs.device)), buffer)
        if name == "kl_div" or not (wants.labels or wants.label_range):
            return
        soft = target.is_floating_point()
        if soft:
            labels = _rows(target, axis, places).argmax(-1)
        else:
            flat = target.reshape(-1)
            labels = (flat if places is None else flat[places]).to(torch.int64)
            labels = torch.where(labels == given.ignored, LEFT_OUT, labels)
        few = classes <= MOST_CLASSES
        if wants.labels and not few:
            self._session.seen.reasons["many classes"] = (
                f"labels of {name}: above {MOST_CLASSES} classes only the smallest and largest label are recorded"
            )
        predicted = _rows(outputs, axis, places).argmax(-1) if wants.labels and few else None
        counts = LabelCounts(name, classes, predicted is not None, wants.labels, wants.label_range and not soft)
        codes = labels if predicted is None else torch.where(labels < 0, LEFT_OUT, labels * classes + predicted)
        gather(buffer, f"labels of {name} among {classes}", counts.record, codes)

    def range_of(self, given: LossArguments, buffer: StepBuffer) -> bool:
        """Record only the minimum and maximum label, immediately; return whether that was possible."""
        outputs, target = given.outputs, given.target
        # After an error, a device answers no more queries.
        if not (outputs.is_cpu and target.is_cpu) or target.is_floating_point() or outputs.dim() < 1:
            return False
        labels = target[target != given.ignored]
        add_range(buffer, labels.reshape(-1).numpy(), outputs.shape[0 if outputs.dim() == 1 else 1])
        return True

    def binary(self, name: str, given: LossArguments, wants: DataWants, buffer: StepBuffer) -> None:
        """Record the inputs of a loss of two classes: one logit or probability per target."""
        outputs, target = given.outputs, given.target
        if outputs.numel() != target.numel() or not target.numel():
            return
        logits = name.endswith("with_logits")
        if wants.rows and logits:
            low, high = torch.aminmax(wide(outputs))
            extremes = torch.stack([low, high, torch.full_like(low, outputs.numel())])
            gather(buffer, f"logits of {name}", _record_logits, extremes[:, None])
        if are_values(target) or not (wants.labels or wants.label_range):
            return
        places = evenly(target.numel(), _MOST_LABELS, target.device)
        targets, predictions = (flat if places is None else flat[places]
                                for flat in (target.reshape(-1), outputs.reshape(-1)))
        codes = (targets >= 0.5).to(torch.int64) * 2 + (predictions >= (0.0 if logits else 0.5)).to(torch.int64)
        # Soft labels are near 0 and 1; gray pixels to reconstruct have any value, and are not labels.
        codes = torch.where((targets > _UNDECIDED[0]) & (targets < _UNDECIDED[1]), LEFT_OUT, codes)
        if wants.labels:
            gather(buffer, f"labels of {name}", functools.partial(_record_binary, name), codes)
        if wants.label_range:
            extremes = wide(torch.stack(torch.aminmax(targets)))
            gather(buffer, f"range of {name}", _record_range, extremes[:, None])

    def named(self, name: str, targets: Any, predictions: Any, buffer: StepBuffer) -> None:
        """Record targets and predictions that the script passes.

        Raises:
            ShapeMismatch: There is not one prediction, or one row of scores, per target.
            UnsupportedCapture: The targets are not class numbers.
        """
        target, predicted = _tensor(targets, "targets"), _tensor(predictions, "predictions")
        scored = predicted.dim() == target.dim() + 1
        if (predicted.shape[:-1] if scored else predicted.shape) != target.shape:
            raise ShapeMismatch(
                f"save_predictions got targets of shape {tuple(target.shape)} and predictions of shape "
                f"{tuple(predicted.shape)}; pass predictions of the same shape, or with one more axis for class "
                "scores. Pass one class number per sample."
            )
        labels = _class_numbers(target, "targets")
        found = predicted.argmax(-1) if scored else _class_numbers(predicted, "predictions")
        if not labels.numel():
            return
        classes = predicted.shape[-1] if scored else 0
        classes = max(classes, int(labels.max()) + 1, int(found.max()) + 1)
        counts = LabelCounts(name, classes, True, True, True)
        # The name identifies the loss, and the code the number of classes, which may grow.
        gather(buffer, f"predictions {name} among {classes}", counts.record, (labels * classes + found).reshape(-1))


def are_values(target: torch.Tensor) -> bool:
    """Return whether a loss of probabilities has many targets per sample: values, not one class."""
    return target.dim() == 2 and target.shape[1] > 1


def _rows(tensor: torch.Tensor, axis: int, places: torch.Tensor | None) -> torch.Tensor:
    """Return the classes' values at some indices, one row each.

    Args:
        tensor: Values with the classes on `axis`, 0 or 1.
        axis: Axis of the classes.
        places: Indices in the order of the tensor without that axis; None: all.
    """
    if axis == 0:
        return tensor[None]
    if places is None:
        return tensor if tensor.dim() == 2 else tensor.movedim(1, -1).reshape(-1, tensor.shape[1])
    sizes = (tensor.shape[0], *tensor.shape[2:])
    found = []
    for size in reversed(sizes):
        found.append(places % size)
        places = places // size
    first, *rest = reversed(found)
    # An index before a slice becomes the first axis: one row per index.
    return tensor[(first, slice(None), *rest)]


def _record_likeness(name: str, rows: torch.Tensor, buffer: StepBuffer) -> None:
    """Record whether logits look like probabilities, or log-probabilities do not."""
    tolerance = _TOLERANCE.get(rows.dtype, _LEAST_TOLERANCE)
    if name == "cross_entropy":
        likely = (rows >= 0).all(-1) & ((rows.float().sum(-1) - 1).abs() <= tolerance)
        gather_share(buffer, fact(Fact.PROBABILITIES_AS_LOGITS), likely)
    elif name in ("nll_loss", "kl_div"):
        unlikely = (rows.float().exp().sum(-1) - 1).abs() > 10 * tolerance
        gather_share(buffer, fact(Fact.LOGITS_AS_PROBABILITIES), unlikely)


_NO, _YES = 0.2, 0.8


def _record_logits(buffer: StepBuffer, extremes: NDArray[Any], training: bool) -> None:
    low, high, number = extremes[0].min(), extremes[1].max(), extremes[2].sum()
    if number >= _LEAST_LOGITS:
        # Logits of an untrained model may be between 0 and 1, but do not span nearly all of that range.
        buffer.scalars[fact(Fact.PROBABILITIES_AS_LOGITS)] = float(0 <= low < _NO and _YES < high <= 1)


def _record_binary(name: str, buffer: StepBuffer, codes: NDArray[Any], training: bool) -> None:
    if (codes == LEFT_OUT).mean() <= _MOST_UNDECIDED:
        LabelCounts(name, 2, answered=True, counted=True, ranged=False).record(buffer, codes, training)


def _record_range(buffer: StepBuffer, extremes: NDArray[Any], training: bool) -> None:
    if np.isfinite(extremes).all():
        add_range(buffer, extremes.reshape(-1), classes=2)


def _tensor(values: Any, what: str) -> torch.Tensor:
    try:
        return torch.as_tensor(values).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnsupportedCapture(
            f"save_predictions got {what} that are not numbers ({type(values).__name__}). Pass class numbers "
            "from 0, or class scores, as a tensor, array or list."
        ) from error


def _class_numbers(values: torch.Tensor, what: str) -> torch.Tensor:
    """Return integers starting at 0.

    Raises:
        UnsupportedCapture: The values are something else.
    """
    numbers = values.to(torch.int64)
    if values.is_complex() or bool((numbers != values).any()) or bool((numbers < 0).any()):
        raise UnsupportedCapture(
            f"save_predictions got {what} that are not class numbers: pass integers from 0. "
            "Record other numbers with run.log."
        )
    return numbers
