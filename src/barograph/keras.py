"""`barograph.keras.Callback`: has a `fit` of Keras recorded by one line, without `barograph run`.

Under `barograph run`, or once `barograph.attach` was called, every `fit` and every `evaluate` of Keras is recorded
without it.
"""

from __future__ import annotations

from typing import Any

import keras

from barograph.attached import AttachedRun
from barograph.attaching import attach
from barograph.capture.recording import current, launched


class Callback(keras.callbacks.Callback):
    """Goes with the callbacks of a training: `model.fit(…, callbacks=[barograph.keras.Callback()])`.

    Where the process is being recorded already, it does nothing; else it begins a run, which ends with the process, or
    where `run.close()` is called: several `fit`s, one after the other, go into one run.

    Args:
        settings: As `barograph.attach` takes them: `to="runs/mine"`, `budget=None`, `recorder=True`, …

    Attributes:
        run: The run that it has begun; None where there was one, and before the training begins.

    Raises:
        SettingsError, StoreError, RunInUse: As `barograph.attach` raises them, when the training begins.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.run: AttachedRun | None = None
        self._settings = settings

    def set_model(self, model: Any) -> None:
        """Begin the run: Keras calls this before it makes the function of a step."""
        super().set_model(model)
        if current() is None and launched() is None:
            self.run = attach(**self._settings)
