"""`barograph.xgboost.Callback`: records SHAP values of an XGBoost training.

Under `barograph run`, or after `barograph.attach`, every XGBoost training is recorded without it.
"""

from __future__ import annotations

from typing import Any

from xgboost.callback import TrainingCallback

from barograph.capture.recording import expect_recording


class Callback(TrainingCallback):
    """Records SHAP values in addition: `xgboost.train(…, callbacks=[Callback(shap=samples)])`.

    Args:
        shap: Samples whose predictions are attributed to features (SHAP) whenever importance is recorded: a matrix or a
            DMatrix. Each time costs one prediction with contributions, so pass a few hundred samples. None: no SHAP
            values.

    Raises:
        SettingsError: No run is being recorded; the callback does not start one.
    """

    def __init__(self, *, shap: Any = None) -> None:
        super().__init__()
        expect_recording("barograph.xgboost.Callback")
        self.shap = shap
