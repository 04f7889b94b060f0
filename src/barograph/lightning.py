"""`barograph.lightning.Callback`: has a training of Lightning recorded by one line, without `barograph run`.

Under `barograph run`, or once `barograph.attach` was called, every training of Lightning is recorded without it.
"""

from __future__ import annotations

import sys
from typing import Any

from barograph.attached import AttachedRun
from barograph.attaching import attach
from barograph.capture.recording import current, launched

if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    # The same by its older name: who uses that need not load the other.
    from pytorch_lightning import Callback as _Callback
else:
    from lightning.pytorch import Callback as _Callback


class Callback(_Callback):
    """Goes with the callbacks of a trainer: `Trainer(…, callbacks=[barograph.lightning.Callback()])`.

    Where the process is being recorded already, it does nothing; else it begins a run, which ends with the process, or
    where `run.close()` is called: several calls of `fit`, one after the other, go into one run.

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

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin the run: Lightning calls this first of all."""
        if current() is None and launched() is None:
            self.run = attach(**self._settings)
