"""The training of `timed_training.py` with Ray Train, on a running cluster: FOLDER WORKERS."""

import json
import sys
import time

started = time.time()

import torch  # noqa: E402

with_torch = time.time()

import os  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import ray  # noqa: E402
from ray import train  # noqa: E402
from ray.train.torch import TorchTrainer, prepare_model  # noqa: E402

# The workers import PyTorch, too.
imports_secs = (time.time() - started) + (with_torch - started)
again_imports_secs = with_torch - started
folder, workers = Path(sys.argv[1]), int(sys.argv[2])


def training(settings: dict[str, Any]) -> None:
    """Train as `timed_training.py`."""
    folder, workers = Path(settings["folder"]), settings["workers"]
    model = prepare_model(torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5 if workers != 1 else 100_000):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        if step == 0 and train.get_context().get_world_rank() == 0:
            part = folder / f".{time.time_ns()}"
            part.write_text(json.dumps({**settings["imports"], "first_step": time.time(), "pid": os.getpid()}))
            part.rename(folder / f"first-{time.time_ns()}.json")
        if (folder / "go").exists():
            break
        time.sleep(0.02)


ray.init(log_to_driver=False)
TorchTrainer(
    training, train_loop_config={"folder": str(folder), "workers": workers, "imports": {
        "imports_secs": imports_secs, "again_imports_secs": again_imports_secs}},
    scaling_config=train.ScalingConfig(num_workers=workers), run_config=train.RunConfig(
        name="bench", storage_path=str(folder / "storage"), failure_config=train.FailureConfig(max_failures=1)),
).fit()
