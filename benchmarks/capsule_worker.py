"""Measures how long a capsule takes to write, beside a plain write of the same bytes, in this process."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import nn

import barograph
from barograph.model.recorder import UpdateSeen
from benchmarks.processes import Request, Result, answer_request

WARM_UP_STEPS = 3


def measure(request: Result) -> Request:
    """Return the seconds of each capsule, of plain writes right before and after it, and how many bytes that is."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    wanted: list[int] = []

    def holds(seen: UpdateSeen) -> bool:
        return seen.step in wanted

    model = nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048),
                          nn.ReLU(), nn.Linear(2048, 10))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    inputs, labels = torch.randn(64, 784), torch.randint(0, 10, (64,))
    folder = Path(request["directory"])
    recorder = {"when": holds, "then": "skip", "at_most": 1000}
    rounds = []
    with barograph.attach(model, optimizer, to=f"{folder}/run", watch=False, preset="free", budget=None,
                          recorder=recorder):

        def step_secs() -> float:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            begin = time.perf_counter()
            optimizer.step()
            return time.perf_counter() - begin

        for _ in range(WARM_UP_STEPS):
            step_secs()
        made = WARM_UP_STEPS
        # The first is written to bring everything that it needs into memory, and to know its bytes.
        data = b""
        for number in range(request["rounds"] + 1):
            wanted[:] = [made]
            before = _plain(folder, data)
            held = step_secs()
            made += 1
            (data, files) = _newest(folder / "run" / "capsules")
            after = _plain(folder, data)
            if number:
                rounds.append({"capsule": held, "plain": [before, after], "bytes": len(data)})
            for file in files:
                file.unlink()
    return {"rounds": rounds}


def _newest(capsules: Path) -> tuple[bytes, list[Path]]:
    (folder,) = (path for path in capsules.iterdir() if any(path.iterdir()))
    files = sorted(folder.iterdir())
    return b"".join(file.read_bytes() for file in files), files


def _plain(folder: Path, data: bytes) -> float:
    path = folder / "plain"
    begin = time.perf_counter()
    path.write_bytes(data)
    secs = time.perf_counter() - begin
    path.unlink()
    return secs


if __name__ == "__main__":
    answer_request(measure)
