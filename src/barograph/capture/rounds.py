"""Records a model trained in rounds: metrics by data set, trees, importance, targets and predictions.

A step is a boosting round. Data of the model is read when it is due.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.array_recorder import TOTAL
from barograph.model.facts import Fact
from barograph.model.importance import importance_key
from barograph.model.key import Key, Kind

_ANSWERS = (Kind.LABEL, Kind.CONFUSION, Kind.TARGET, Kind.OUTPUT)
_MOST_CLASSES = 1000
_MOST_SAMPLES = 1 << 17
"""Maximum number of samples whose labels and predictions are read, evenly spread."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The value of a metric on a data set after a round.

    Attributes:
        data: Name of the data set.
        name: Name of the metric.
        value: Value of the metric.
        is_loss: Less is better.
        in_training: It is the training data.
    """

    data: str
    name: str
    value: float
    is_loss: bool
    in_training: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """A grown tree: its depth (0: only a leaf), its number of leaves, and the gains of its splits; NaN: unknown."""

    depth: int
    leaves: int
    gain: float = math.nan


@dataclass(frozen=True, slots=True)
class Predictions:
    """The targets and predictions of a data set.

    Attributes:
        data: Name of the data set.
        labels: Label of each sample.
        predictions: One number, or one row of probabilities, for each sample.
        in_training: It is the training data.
        are_classes: The labels are classes.
    """

    data: str
    labels: Any
    predictions: Any
    in_training: bool
    are_classes: bool


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """The early-stopping settings of a training.

    Attributes:
        rounds: Number of rounds without improvement; 0: no early stopping.
        on_training: It monitors the training data.
    """

    rounds: int
    on_training: bool = False


class Grown(Protocol):
    """A model after a round, read only if something is due."""

    def metrics(self) -> Iterable[Metric]:
        """Return the metrics after this round, as requested by the script."""

    def trees(self) -> Iterable[Tree]:
        """Return the trees of this round."""

    def importance(self) -> Mapping[str, Mapping[str, float]]:
        """Return the feature importances by type; "" is total gain."""

    def predictions(self) -> Iterable[Predictions]:
        """Return labels and predictions of each data set with available predictions."""

    def hyperparameters(self) -> Mapping[str, Any]:
        """Return the hyperparameters of the training."""

    def learning_rate(self) -> float | None:
        """Return the learning rate of this round, called for every round; None: there is none."""

    def planned(self) -> int | None:
        """Return the planned number of rounds; None: the trees are independent."""

    def early_stopping(self) -> EarlyStopping | None:
        """Return the early-stopping condition; None: unknown."""


class Rounds:
    """Records one training, round by round.

    Args:
        integration: Records the training.
        first_step: Number of rounds that the model had before; None: the `first_step` of `attach`.
    """

    def __init__(self, integration: ArrayIntegration, first_step: int | None = None) -> None:
        self._integration = integration
        self._begun = False
        integration.begin_training(first_step)
        with integration.guarded("starting a boosted training"):
            integration.session.seen.explain_no_loss("the training has no evaluation set, or no metric that is a loss")

    def _parameters(self, model: Grown) -> None:
        """Record the hyperparameters, with the first round: the numbers one by one, and all as JSON."""
        if self._begun:
            return
        self._begun, integration = True, self._integration
        values = model.hyperparameters()
        integration.metrics({f"hyperparameter[{name}]": float(value) for name, value in values.items()
                     if isinstance(value, bool | int | float | np.number)})
        if integration.asks_ever(Kind.CUSTOM):
            text = json.dumps(dict(values), default=str, sort_keys=True)
            integration.save("hyperparameters", np.frombuffer(text.encode(), np.uint8))

    def _learning_rate(self, model: Grown) -> None:
        rate = model.learning_rate()
        if rate is not None:
            self._integration.learning_rate(float(rate))

    def _plan(self, model: Grown) -> None:
        """Record the settings of the training, if due."""
        if not self._integration.due(Kind.FACT):
            return
        planned, stopping = model.planned(), model.early_stopping()
        if planned is not None:
            self._integration.fact(Fact.ROUNDS_PLANNED, float(planned))
        if stopping is not None:
            self._integration.fact(Fact.EARLY_STOPPING, float(stopping.rounds))
            self._integration.fact(Fact.EARLY_STOPPING, float(stopping.on_training), "training")

    def end_round(self, model: Grown, *, is_last: bool = False) -> None:
        """End a round. Records everything of the last one, which gives the model that the script uses.

        Args:
            model: The model after the round.
            is_last: The training ends with it, although more rounds were planned.

        Raises:
            TrainingStopped: A finding stopped the training.
        """
        integration, metrics = self._integration, list[Metric]()
        with integration.guarded("reading a round"):
            planned = model.planned()
            is_last = is_last or (planned is not None and integration.step + 1 >= planned)
            if is_last:
                integration.take_everything()
            metrics = list(model.metrics())
            self._parameters(model)
            self._learning_rate(model)
            self._plan(model)
            self._judged([metric for metric in metrics if metric.in_training])
            integration.metrics({f"{metric.data}.{metric.name}": metric.value for metric in metrics})
            if integration.due(Kind.TREE, Kind.IMPORTANCE, *_ANSWERS):
                self._read(model)
        try:
            integration.end_step()
        finally:
            with integration.guarded("reading an evaluation"):
                self._evaluation(model, [metric for metric in metrics if not metric.in_training], is_last=is_last)

    def _evaluation(self, model: Grown, metrics: list[Metric], *, is_last: bool) -> None:
        integration = self._integration
        if not metrics or integration.session.closed:
            return
        integration.begin_evaluation()
        if is_last:
            integration.take_everything()
        self._judged(metrics)
        if integration.due(*_ANSWERS):
            self._answers(predictions for predictions in model.predictions() if not predictions.in_training)
        integration.end_evaluation()

    def _judged(self, metrics: list[Metric]) -> None:
        """Record the losses: the first metric of the first data set is the loss of the training."""
        for metric in metrics:
            if metric.is_loss:
                name = TOTAL if metric is next(item for item in metrics if item.is_loss) else (
                    f"{metric.data}.{metric.name}")
                self._integration.loss(metric.value, name)

    def _read(self, model: Grown) -> None:
        """Record what is due of the model itself."""
        self._trees(model)
        self._importance(model)
        if self._integration.due(*_ANSWERS):
            self._answers(predictions for predictions in model.predictions() if predictions.in_training)

    def _trees(self, model: Grown) -> None:
        if not self._integration.due(Kind.TREE):
            return
        trees = list(model.trees())
        if trees:
            found = {"depth": max(tree.depth for tree in trees), "leaves": sum(tree.leaves for tree in trees),
                     "splits": sum(tree.leaves - 1 for tree in trees), "trees": len(trees)}
            gain = math.fsum(tree.gain for tree in trees)
            numbers = {**found, "gain": gain} if math.isfinite(gain) else found
            self._integration.numbers({Key(Kind.TREE, name): float(value) for name, value in numbers.items()})

    def _importance(self, model: Grown) -> None:
        if self._integration.due(Kind.IMPORTANCE):
            self._integration.numbers({importance_key(feature, kind): float(value)
                               for kind, features in model.importance().items() for feature, value in features.items()})

    def _answers(self, found: Iterable[Predictions]) -> None:
        for item in found:
            labels, predictions = _thinned(np.asarray(item.labels)), _thinned(np.asarray(item.predictions))
            if not labels.size:
                continue
            if item.are_classes and labels.max() < _MOST_CLASSES:
                rows = predictions[:, None] if predictions.ndim == 1 and predictions.dtype.kind == "f" and not (
                    np.array_equal(predictions, np.rint(predictions))) else predictions
                self._integration.predictions(labels.astype(np.int64), rows, item.data)
            self._integration.take(Kind.TARGET, {item.data: labels})
            self._integration.take(Kind.OUTPUT, {item.data: predictions})
            self._integration.declare(modules=self._integration.session.seen.outputs)


def _thinned(values: Any) -> Any:
    count = len(values) if values.ndim else 0
    if count <= _MOST_SAMPLES:
        return values
    return values[np.arange(_MOST_SAMPLES) * count // _MOST_SAMPLES]
