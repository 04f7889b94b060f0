"""`barograph.keras.Callback`: records a Keras `fit` with one line, without `barograph run`.

Under `barograph run`, or after `barograph.attach`, every `fit` and `evaluate` is recorded without it.
"""

from __future__ import annotations

from typing import Any

import keras

from barograph.attached import AttachedRun
from barograph.attaching import attach
from barograph.capture.recording import current, launched


class Callback(keras.callbacks.Callback):
    """Records a training: `model.fit(…, callbacks=[barograph.keras.Callback()])`.

    It starts a run unless the process is already being recorded. The run ends with the process or with `run.close()`;
    several calls of `fit` go into one run.

    Args:
        settings: As for `barograph.attach`: `to="runs/mine"`, `budget=None`, `recorder=True`, …

    Attributes:
        run: The run it started. None before the training starts, and if the process was already being recorded.

    Raises:
        SettingsError, StoreError, RunInUse: When the training starts, as in `barograph.attach`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.run: AttachedRun | None = None
        self._settings = settings

    def set_model(self, model: Any) -> None:
        """Start the run. Keras calls this before it builds the training step."""
        super().set_model(model)
        if current() is None and launched() is None:
            self.run = attach(**self._settings)
