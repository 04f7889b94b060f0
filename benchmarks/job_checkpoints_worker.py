"""Trains one workload for some time, with or without checkpoints."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import barograph
from benchmarks.models import build_workload
from benchmarks.processes import Request, Result, answer_request

_STEPS = 10**7


def measure(request: Request) -> Result:
    """Return steps, seconds and the cost of each checkpoint."""
    torch.set_num_threads(1)
    workload = build_workload(request["workload"])
    numbers = DataLoader(TensorDataset(torch.arange(_STEPS)))
    steps = 0
    with barograph.attach(workload.model, workload.optimizer, to=str(Path(request["directory"], "run")), watch=False,
                          preset="free", checkpoints=request["checkpoints"]) as run:  # fmt: skip
        begin = time.perf_counter()
        for _ in numbers:
            workload.forward_backward()
            workload.optimizer.step()
            steps += 1
            took = time.perf_counter() - begin
            if took >= request["secs"]:
                break
        saves = run._recording.torch.feeding.begin_checkpointer() if request["checkpoints"] else None
        costs = list(saves.costs_secs) if saves else []
    return {"steps": steps, "secs": took, "costs_secs": costs}


if __name__ == "__main__":
    answer_request(measure)
