"""`barograph.lightgbm.Callback`: records SHAP values of a LightGBM training.

Under `barograph run`, or after `barograph.attach`, every LightGBM training is recorded without it.
"""

from __future__ import annotations

from typing import Any

from barograph.capture.recording import expect_recording


class Callback:
    """Records SHAP values in addition: `lightgbm.train(…, callbacks=[Callback(shap=samples)])`.

    Args:
        shap: Samples whose predictions are attributed to features (SHAP) whenever importance is recorded: a matrix.
            Each time costs one prediction with contributions, so pass a few hundred samples. None: no SHAP values.

    Raises:
        SettingsError: No run is being recorded; the callback does not start one.
    """

    before_iteration = False

    def __init__(self, *, shap: Any = None) -> None:
        expect_recording("barograph.lightgbm.Callback")
        self.shap = shap

    def __call__(self, env: Any) -> None:
        """Do nothing: rounds are recorded without the callback, which only holds its options."""
