"""`barograph.xgboost.Callback`: what a training of XGBoost is to have recorded beyond what is recorded anyway.

Under `barograph run`, or once `barograph.attach` was called, every training of XGBoost is recorded without it.
"""

from __future__ import annotations

from typing import Any

from xgboost.callback import TrainingCallback

from barograph.capture.recording import expect_recording


class Callback(TrainingCallback):
    """Goes with the callbacks of one training: `xgboost.train(…, callbacks=[Callback(shap=samples)])`.

    Args:
        shap: Samples whose answers are taken apart by feature (SHAP), where importance is recorded: a matrix, or a
            DMatrix. It costs one prediction with contributions each time, so a few hundred will do; None: none.

    Raises:
        SettingsError: No run is being recorded; a callback alone begins none.
    """

    def __init__(self, *, shap: Any = None) -> None:
        super().__init__()
        expect_recording("barograph.xgboost.Callback")
        self.shap = shap
