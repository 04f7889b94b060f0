"""Saves checkpoints of one workload: as Barograph does in a training, with `torch.save`, and as plain bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import barograph
from barograph.runs.state.checkpoints import last_good
from barograph.store.urls import store_from_url
from benchmarks.models import build_workload
from benchmarks.processes import Request, Result, answer_request


def measure(request: Request) -> Result:
    """Return seconds by way and round, and the bytes that Barograph writes."""
    torch.set_num_threads(1)
    workload, folder = build_workload(request["workload"]), Path(request["directory"])
    secs: dict[str, list[float]] = {"barograph": [], "torch.save": [], "plain": [], "read": []}
    place = folder / "run"
    numbers = TensorDataset(torch.arange(2 * request["rounds"] + 1))
    with barograph.attach(workload.model, workload.optimizer, to=str(place), watch=False, preset="free",
                          checkpoints={"on_sigterm": False, "keep": 1}) as run:  # fmt: skip
        saves = run._recording.torch.feeding.begin_checkpointer()
        for _ in DataLoader(numbers):
            workload.forward_backward()
            workload.optimizer.step()
            saves.ask_for_one("measured")
    # The first one finds schedulers and loads modules.
    secs["barograph"] = list(saves.costs_secs)[1 : request["rounds"] + 1]
    written = sum(path.stat().st_size for path in (place / "checkpoints").iterdir())
    state = {"model": workload.model.state_dict(), "optimizer": workload.optimizer.state_dict()}
    data = b"x" * written
    for _ in range(request["rounds"]):
        secs["torch.save"].append(_took(lambda: torch.save(state, folder / "state.pt")))
        secs["plain"].append(_took(lambda: _write(folder / "plain", data)))
        secs["read"].append(_took(lambda: last_good(store_from_url(str(place)))))
    return {"secs": secs, "bytes": written}


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _took(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


if __name__ == "__main__":
    answer_request(measure)
