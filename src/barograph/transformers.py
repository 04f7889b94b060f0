"""`barograph.transformers.Callback`: records a Transformers `Trainer` with one line, without `barograph run`.

Under `barograph run`, or after `barograph.attach`, every training of a `Trainer` is recorded without it.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from barograph.attached import AttachedRun
from barograph.attaching import attach
from barograph.capture.recording import current, launched


class Callback(TrainerCallback):
    """Records a training: `Trainer(…, callbacks=[barograph.transformers.Callback()])`.

    It starts a run unless the process is already being recorded. The run ends with the process or with `run.close()`;
    several trainings go into one run.

    Args:
        settings: As for `barograph.attach`: `to="runs/mine"`, `budget=None`, `recorder=True`, …

    Attributes:
        run: The run it started. None before a trainer is created, and if the process was already being recorded.

    Raises:
        SettingsError, StoreError, RunInUse: When the run starts, as in `barograph.attach`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.run: AttachedRun | None = None
        self._settings = settings

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the run when the trainer is created, before the training's setup."""
        self._begin()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start a new run if the last one was closed."""
        self._begin()

    def _begin(self) -> None:
        if current() is None and launched() is None:
            self.run = attach(**self._settings)
