"""The losses of the current step: starts of backward passes, and results of Gluon losses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from mxnet.gluon.loss import SigmoidBinaryCrossEntropyLoss, SoftmaxCrossEntropyLoss

from barograph.capture.array_recorder import TOTAL
from barograph.capture.mxnet.arrays import array_of, mean_of, wait_for
from barograph.model.facts import Fact
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.entry_point import EntryPoint

_MOST_UNREAD = 64
"""Losses of micro-batches kept until their step ends; if there are more, the oldest are read earlier."""


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    count: int = 0

    def add(self, number: float) -> None:
        self.total += number
        self.count += 1


@dataclass(frozen=True, slots=True)
class _Unread:
    """A loss whose value may still be computed.

    Attributes:
        name: Name of the loss.
        parts: Arrays whose means add up to the loss.
        scales: Loss scale for mixed precision, by the id of a Trainer.
    """

    name: str
    parts: tuple[Any, ...]
    scales: dict[int, float] = field(default_factory=dict)


class Losses:
    """Collects losses until a Trainer steps, which determines their series.

    Args:
        entry: Entry point of the integration.
    """

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry
        self._unread: list[_Unread] = []
        self._read: dict[str, _Mean] = {}
        self._samples: dict[str, int] = {}
        self._predictions: list[tuple[Any, Any, Any]] = []
        self._names: set[str] = set()

    def began_backward(self, heads: Any, trainers: Iterable[Any]) -> None:
        """Take the losses that a backward pass starts from.

        Arrays of one context are added up, like their gradients; those of several contexts are parts of one batch.

        Args:
            heads: One array or several.
            trainers: All Trainers.
        """
        scales = {id(trainer): scale for trainer in trainers if (scale := _scale_of(trainer)) != 1.0}
        by_context: dict[str, list[Any]] = {}
        for head in heads if isinstance(heads, list | tuple) else [heads]:
            by_context.setdefault(str(head.ctx), []).append(head)
        for parts in by_context.values():
            self._unread.append(_Unread(TOTAL, tuple(parts), scales))

    def made(self, block: Any, args: Any, loss: Any, *, keeps_predictions: bool) -> None:
        """Take the result of a Gluon loss in training.

        Args:
            block: The loss block.
            args: Arguments of the call.
            loss: Result of the call.
            keeps_predictions: Targets and predictions are due.
        """
        name = type(block).__name__
        self._names.add(name)
        self._unread.append(_Unread(name, (loss,)))
        self._samples[name] = self._samples.get(name, 0) + (loss.shape[0] if loss.shape else 1)
        if keeps_predictions and len(self._predictions) < _MOST_UNREAD:
            self._predictions.append((block, args[1], args[2]))

    def read_old(self) -> None:
        """Read all losses if too many are kept."""
        if len(self._unread) > _MOST_UNREAD:
            self._read_all(None)

    def record(self, trainer: Any, integration: ArrayIntegration) -> None:
        """Record losses, targets and predictions of the step that a Trainer is about to make."""
        self._read_all(trainer)
        with self._entry.guarded("recording a loss"):
            for name, mean in self._read.items():
                integration.loss(mean.total / mean.count, name)
            if self._samples:
                integration.fact(Fact.BATCH_SIZE, max(self._samples.values()))
        self._read, self._samples = {}, {}
        waiting, self._predictions = self._predictions, []
        for block, predictions, labels in waiting:
            record_predictions(integration, block, predictions, labels)

    def record_evaluated(self, integration: ArrayIntegration, block: Any, args: Any, loss: Any) -> None:
        """Record the result of a Gluon loss in an evaluation; also as the total if it is the only loss."""
        wait_for([loss])
        name = type(block).__name__
        with integration.guarded("recording the loss of an evaluation"):
            number = mean_of(loss)
            if self._names <= {name}:
                integration.loss(number)
            integration.loss(number, name)
        if integration.due(Kind.LABEL, Kind.CONFUSION):
            record_predictions(integration, block, args[1], args[2])

    def _read_all(self, trainer: Any) -> None:
        unread, self._unread = self._unread, []
        # Usually the result of a Gluon loss is also the start of the backward pass.
        means: dict[int, float] = {}
        for item in unread:
            wait_for(item.parts)
            with self._entry.guarded("reading a loss"):
                for part in item.parts:
                    if id(part) not in means:
                        means[id(part)] = mean_of(part)
                number = sum(means[id(part)] for part in item.parts) / item.scales.get(id(trainer), 1.0)
                self._read.setdefault(item.name, _Mean()).add(number)


def has_predictions(block: Any, args: Any) -> bool:
    """Return whether the arguments of a loss are countable targets and predictions."""
    return isinstance(block, SoftmaxCrossEntropyLoss | SigmoidBinaryCrossEntropyLoss) and len(args) > 2


def record_predictions(integration: ArrayIntegration, block: Any, predictions: Any, labels: Any) -> None:
    """Record the targets and predictions passed to a loss over classes."""
    wait_for([predictions, labels])
    with integration.guarded("counting labels and predictions"):
        targets, scores = array_of(labels), array_of(predictions)
        if isinstance(block, SoftmaxCrossEntropyLoss):
            scores = np.moveaxis(scores, block._axis, -1)
            targets = (targets.reshape(scores.shape[:-1]) if block._sparse_label
                       else np.moveaxis(targets, block._axis, -1))
        else:
            scores = (scores > (0.5 if block._from_sigmoid else 0.0)).astype(np.float32)
            targets = targets.reshape(scores.shape)
            if scores.ndim > 1 and scores.shape[-1] > 1:
                return  # multi-label: not one class per sample
        integration.predictions(targets, scores, type(block).__name__)


def _scale_of(trainer: Any) -> float:
    """Return the current loss scale of a Trainer; 1 without mixed precision."""
    if getattr(trainer, "_amp_loss_scaler", None) is None or not trainer._scale:
        return 1.0
    return float(trainer._amp_original_scale / trainer._scale)
