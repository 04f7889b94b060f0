"""Target, prediction and loss of single samples, from the arguments of a loss function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from barograph.capture.torch.loss_arguments import BINARY_LOSSES, LossArguments

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CLASSES = ("cross_entropy", "nll_loss")
_DISTANCES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class SampleResults:
    """Results of some samples.

    Attributes:
        targets, predictions: Class numbers as integers, or values; None: unknown.
        losses: Loss of each sample, without weights of classes; None: unknown.
    """

    targets: NDArray[Any] | None = None
    predictions: NDArray[Any] | None = None
    losses: NDArray[Any] | None = None

    def updated(self, other: SampleResults | None) -> SampleResults:
        """Return these results, replaced by those that another one knows.

        Without a loss, the highest of several outputs is taken for the predicted class. A loss that has no classes,
        such as the squared error of several outputs, withdraws it.
        """
        if other is None:
            return self
        if self.targets is None and other.predictions is None:
            return SampleResults(other.targets, None, other.losses)
        known = {name: value for name in ("targets", "predictions", "losses")
                 if (value := getattr(other, name)) is not None}
        return replace(self, **known)

    def classes_of(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the predicted classes of some rows; 0 if the model predicts no classes."""
        if self.predictions is None or self.predictions.dtype.kind not in "iu":
            return np.zeros(len(rows), np.int64)
        found: NDArray[np.int64] = self.predictions[rows].astype(np.int64)
        return found


def results_of_output(answer: torch.Tensor) -> SampleResults:
    """Return the predictions of a model's output: the highest of several scores, or the only value."""
    if answer.dim() == 2 and answer.shape[1] > 1:
        return SampleResults(predictions=answer.argmax(1).cpu().numpy())
    if answer[0].numel() == 1:
        return SampleResults(predictions=_floats(answer.reshape(-1)))
    return SampleResults()


def results_of_loss(name: str, given: LossArguments, rows: int, chosen: NDArray[np.intp]) -> SampleResults | None:
    """Return the results of the chosen rows of a batch; None if the loss does not tell its samples apart.

    Args:
        name: Name of the loss function.
        given: Its arguments. Flattened positions of a sequence, sample by sample, are averaged.
        rows: Samples of the batch.
        chosen: The chosen ones.
    """
    outputs, target = given.outputs, given.target
    if not outputs.dim() or not target.dim() or not rows or outputs.shape[0] % rows or (
            target.shape[0] != outputs.shape[0]):
        return None
    each = outputs.shape[0] // rows
    places = torch.as_tensor((chosen[:, None] * each + np.arange(each)).reshape(-1), device=outputs.device)
    outputs, target = outputs[places].float(), target[places.to(target.device)].to(outputs.device)
    if name in _CLASSES:
        return _classes(name, outputs, target, given.ignored, len(chosen))
    if name in BINARY_LOSSES and outputs.numel() == target.numel():
        return _yes_or_no(name, outputs.reshape(len(chosen), -1), target.float().reshape(len(chosen), -1))
    if name in _DISTANCES and outputs.numel() == target.numel():
        return _values(name, outputs.reshape(len(chosen), -1), target.float().reshape(len(chosen), -1))
    return None


def _classes(name: str, outputs: torch.Tensor, target: torch.Tensor, ignored: int, samples: int) -> SampleResults:
    logs = torch.log_softmax(outputs, 1) if name == "cross_entropy" else outputs
    if target.is_floating_point():
        losses, labels = -(logs * target).sum(1), target.argmax(1)
        counted = torch.ones_like(losses)
    else:
        counted = (target != ignored).float()
        labels = target.clamp(0, outputs.shape[1] - 1)
        losses = -logs.gather(1, labels.long()[:, None])[:, 0] * counted
    losses, counted = losses.reshape(samples, -1).sum(1), counted.reshape(samples, -1).sum(1)
    mean = _floats(losses / counted)
    if labels.numel() != samples:
        return SampleResults(losses=mean)
    return SampleResults(labels.reshape(-1).cpu().numpy(), logs.argmax(1).reshape(-1).cpu().numpy(), mean)


def _yes_or_no(name: str, outputs: torch.Tensor, target: torch.Tensor) -> SampleResults:
    if name.endswith("with_logits"):
        losses = torch.clamp(outputs, min=0) - outputs * target + torch.log1p(torch.exp(-outputs.abs()))
    else:
        sure = outputs.clamp(_TINY, 1 - 1e-7)
        losses = -(target * sure.log() + (1 - target) * (1 - sure).log())
    mean = _floats(losses.mean(1))
    if outputs.shape[1] != 1:
        return SampleResults(losses=mean)
    predicted = outputs[:, 0] >= (0.0 if name.endswith("with_logits") else 0.5)
    return SampleResults((target[:, 0] >= 0.5).long().cpu().numpy(), predicted.long().cpu().numpy(), mean)


def _values(name: str, outputs: torch.Tensor, target: torch.Tensor) -> SampleResults:
    away = outputs - target
    losses = _floats((away.square() if name == "mse_loss" else away.abs()).mean(1)) if (
        name in ("mse_loss", "l1_loss")) else None
    if outputs.shape[1] != 1:
        return SampleResults(losses=losses)
    return SampleResults(_floats(target[:, 0]), _floats(outputs[:, 0]), losses)


def _floats(tensor: torch.Tensor) -> NDArray[Any]:
    found: NDArray[Any] = tensor.float().cpu().numpy()
    return found
