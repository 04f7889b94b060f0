"""`barograph.transformers.Callback`: has a `Trainer` of Transformers recorded by one line, without `barograph run`.

Under `barograph run`, or once `barograph.attach` was called, every training of a `Trainer` is recorded without it.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from barograph.attached import AttachedRun
from barograph.attaching import attach
from barograph.capture.recording import current, launched


class Callback(TrainerCallback):
    """Goes with the callbacks of a trainer: `Trainer(…, callbacks=[barograph.transformers.Callback()])`.

    Where the process is being recorded already, it does nothing; else it begins a run, which ends with the process, or
    where `run.close()` is called: several trainings, one after the other, go into one run.

    Args:
        settings: As `barograph.attach` takes them: `to="runs/mine"`, `budget=None`, `recorder=True`, …

    Attributes:
        run: The run that it has begun; None where there was one, and before a trainer is made.

    Raises:
        SettingsError, StoreError, RunInUse: As `barograph.attach` raises them, when the run begins.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.run: AttachedRun | None = None
        self._settings = settings

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the run, when the trainer is made: what a training begins with is heard then."""
        self._begin()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin it, where it was closed since."""
        self._begin()

    def _begin(self) -> None:
        if current() is None and launched() is None:
            self.run = attach(**self._settings)
