"""A small run with a probe."""

from __future__ import annotations

from typing import Any

import numpy as np

from barograph.model.step import Mode
from barograph.store.urls import store_from_url
from diary import Diary

SAMPLES = np.array([11, 22, 33, 44, 55, 66, 77])


def probed(url: str, *, classes: bool = True) -> Diary:
    """Return a run with three evaluations of seven samples of two classes, or of values; the last has no target."""
    diary = Diary("probed", store_from_url(url))
    generator = np.random.default_rng(0)
    for number in range(3):
        diary.step(number, {"loss:total": 3.0 - number, "loss:mse_loss": 3.0 - number},
                   {"weight:fc.weight": [0.5, -1.0, 2.0 + number, 0.0]})
        saved: dict[str, Any] = {
            "samples": SAMPLES, "output[input of fc]": generator.normal(size=(7, 4)).astype(np.float16),
            "target": np.array([0, 1, 0, 1, 0, 1, -1]), "prediction": np.array([0, 1, 0, 1, 1, 1, 0]),
            "loss": np.linspace(0, 1, 7, dtype=np.float32), "saliency_samples": SAMPLES[:2],
            "saliency[smoothgrad]": np.ones((2, 1, 5, 5), np.float32),
        }
        if not classes:
            saved |= {"target": np.array([0.5, 1, 2, 3, 4, 5, np.nan], np.float32),
                      "prediction": np.linspace(0, 5, 7, dtype=np.float32)}
        if not number:
            saved |= {"input": np.zeros((7, 1, 5, 5), np.float16), "input_samples": SAMPLES}
        diary.step(number + 1, {"loss:mse_loss": 3.5 - number}, mode=Mode.EVAL,
                   saved={f"probe/{name}": value for name, value in saved.items()})
    return diary
