"""Installs the Keras hooks once it is imported, for every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import keras

from barograph.capture.integrations import report_missing
from barograph.capture.keras.integration import KerasIntegration

if TYPE_CHECKING:
    from barograph.capture.integrations import Listening

_NEEDS = {
    "Model.make_train_function": "steps", "Model.make_test_function": "evaluations",
    "Model.compute_loss": "losses", "layers.Layer.__call__": "layers", "StatelessScope": "the JAX backend",
    "optimizers.Optimizer.apply": "gradients", "optimizers.Optimizer.stateless_apply": "gradients",
    "optimizers.LossScaleOptimizer.apply": "scaled gradients", "backend.backend": "the backend",
}


def listen(recording: Listening) -> None:
    """Add a Keras integration to the recording."""
    if report_missing(recording.session, keras, _NEEDS):
        return  # Keras 2 has other steps, which the wrappers do not support
    integration = KerasIntegration(recording)
    recording.add_integration(integration)
    integration.install()
