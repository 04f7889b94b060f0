"""Makes `smdebug`, a directory as smdebug 1.0.34 writes it, with values of our own; run with that library installed:

    python tests/data/make_smdebug.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from smdebug.core.collection_manager import CollectionManager  # type: ignore[import-not-found]
from smdebug.core.writer import FileWriter  # type: ignore[import-not-found]
from smdebug.pytorch import modes  # type: ignore[import-not-found]

PLACE = Path(__file__).parent / "smdebug"
WEIGHT, GRADIENT, LOSS = "Net_fc.weight", "gradient/Net_fc.weight", "CrossEntropyLoss_output_0"
STEPS = ((0, modes.TRAIN, 0), (1, modes.TRAIN, 1), (2, modes.EVAL, 0))


def write(worker: int) -> None:
    for step, mode, mode_step in STEPS:
        writer = FileWriter(str(PLACE), worker=f"worker_{worker}", step=step)
        values = {
            WEIGHT: np.arange(6, dtype=np.float32).reshape(2, 3) / 7 + step + 10 * worker,
            GRADIENT: np.array([[np.nan, np.inf, -0.0], [1e-40, 1.5, -2.5]], np.float32) + np.float32(step),
            LOSS: np.array(0.1 * (step + 1) + worker, np.float32),
            f"smdebug/reductions/abs_mean/{WEIGHT}": np.array(1 / (step + 3), np.float32),
            "scalar/accuracy": np.array([0.1 * step + worker], np.float64),
        }
        for name, value in values.items():
            writer.write_tensor(tdata=value, tname=name, mode=mode, mode_step=mode_step,
                                timestamp=1_600_000_000.5 + step)
        writer.close()


if __name__ == "__main__":
    for number in range(2):
        write(number)
        collections = CollectionManager()
        collections.get("losses").add_tensor_name(LOSS)
        collections.set_num_workers(2)
        collections.export(str(PLACE), f"worker_{number}_collections.json")
    (PLACE / "training_job_end.ts").write_text("end of training job\n")
