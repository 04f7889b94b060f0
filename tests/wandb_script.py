"""Run by a Python that has Weights & Biases: an offline run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import wandb

STEPS = 400
TEXT = "x" * 700


def story() -> None:
    run = wandb.init(project="digits", name="first", notes="the best", tags=["a", "b"], group="sweep", job_type="train",
                     config={"lr": 1e-3, "net": {"width": 64, "act": "relu"}, "seeds": [1, 2]}, id="abc123")
    values = {}
    for step in range(STEPS):
        values[step] = math.exp(-step / 50) + step / 7e3
        wandb.log({"train/loss": values[step], "acc": step / STEPS, "nested": {"x": step}, "text": TEXT})
    wandb.log({"odd": math.nan, "more": math.inf, "image": wandb.Image(np.zeros((4, 4, 3), np.uint8)),
               "histogram": wandb.Histogram([1, 2, 3])})
    wandb.log({"third": 1 / 3}, step=STEPS + 50)
    run.summary["best"] = 0.98
    wandb.config.update({"late": True})
    Path("model.bin").write_bytes(b"weights")
    artifact = wandb.Artifact("model", "model")
    artifact.add_file("model.bin")
    run.log_artifact(artifact)
    run.finish()
    Path("truth.json").write_text(json.dumps({step: value.hex() for step, value in values.items()}))


if __name__ == "__main__":
    story()
