"""`barograph.lightgbm.Callback`: what a training of LightGBM is to have recorded beyond what is recorded anyway.

Under `barograph run`, or once `barograph.attach` was called, every training of LightGBM is recorded without it.
"""

from __future__ import annotations

from typing import Any

from barograph.capture.recording import expect_recording


class Callback:
    """Goes with the callbacks of one training: `lightgbm.train(…, callbacks=[Callback(shap=samples)])`.

    Args:
        shap: Samples whose answers are taken apart by feature (SHAP), where importance is recorded: a matrix. It costs
            one prediction with contributions each time, so a few hundred will do; None: none.

    Raises:
        SettingsError: No run is being recorded; a callback alone begins none.
    """

    before_iteration = False

    def __init__(self, *, shap: Any = None) -> None:
        expect_recording("barograph.lightgbm.Callback")
        self.shap = shap

    def __call__(self, env: Any) -> None:
        """Do nothing: the rounds are heard anyway, and this says what more is asked for."""
