"""Checks whether a Keras loss gets what it expects: probabilities or logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from barograph.capture.keras.arrays import array_of
from barograph.model.facts import Fact
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration

_TOLERANCE = 1e-2
"""Tolerance for the sum of probabilities, which may be computed in half precision."""

_OF_ROWS = ("categorical_crossentropy", "sparse_categorical_crossentropy")


def record_likeness(integration: ArrayIntegration, loss: str, predictions: Any, from_logits: bool) -> None:
    """Record, if due, the share of predictions that do not look like the loss expects.

    On TensorFlow, Keras itself uses the logits before a softmax, so nothing is recorded there.
    """
    if from_logits and keras.backend.backend() == "tensorflow":
        return
    name = Fact.PROBABILITIES_AS_LOGITS if from_logits else Fact.LOGITS_AS_PROBABILITIES
    if loss in _OF_ROWS and integration.taking(Kind.FACT, name.value) is not None:
        integration.fact(name, share_unlike(np.asarray(array_of(predictions), np.float32), from_logits))


def share_unlike(predictions: Any, from_logits: bool) -> float:
    """Return the share of rows that are probabilities, if logits are expected; otherwise of those that are not.

    Example:
        >>> share_unlike(np.array([[0.5, 0.5], [2.0, -1.0]]), from_logits=True)
        0.5
        >>> share_unlike(np.array([[0.5, 0.5], [2.0, -1.0], [3.0, 0.0], [1.0, 0.0]]), from_logits=False)
        0.5
    """
    are = (predictions >= 0).all(-1) & (np.abs(predictions.sum(-1) - 1.0) <= _TOLERANCE)
    return float(np.mean(are if from_logits else ~are))
