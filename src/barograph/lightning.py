"""`barograph.lightning.Callback`: records a Lightning training with one line, without `barograph run`.

Under `barograph run`, or after `barograph.attach`, every Lightning training is recorded without it.
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
    """Records a training: `Trainer(…, callbacks=[barograph.lightning.Callback()])`.

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

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Start the run. Lightning calls this before all other hooks."""
        if current() is None and launched() is None:
            self.run = attach(**self._settings)
