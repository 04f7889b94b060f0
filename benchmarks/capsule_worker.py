"""Measures the time of writing a capsule, compared with a plain write of the same bytes, in this process."""

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
    """Return the seconds of each capsule and of plain writes right before and after it, and the number of bytes."""
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
        # The first one loads everything it needs into memory, and shows the number of bytes.
        data = b""
        for number in range(request["rounds"] + 1):
            wanted[:] = [made]
            # Memory of a deleted file is written ten times as fast as fresh page cache, so all three files stay until
            # the end of the round: none is written where another has just been.
            before = _plain(folder / "before", data)
            held = step_secs()
            made += 1
            after = _plain(folder / "after", data)
            if number:
                rounds.append({"capsule": held, "plain": [before, after], "bytes": len(data)})
            else:
                data = _newest(folder / "run" / "capsules")
            for file in (folder / "before", folder / "after", *_files(folder / "run" / "capsules")):
                file.unlink()
    return {"rounds": rounds}


def _newest(capsules: Path) -> bytes:
    return b"".join(file.read_bytes() for file in _files(capsules))


def _files(capsules: Path) -> list[Path]:
    return sorted(file for folder in capsules.iterdir() for file in folder.iterdir())


def _plain(path: Path, data: bytes) -> float:
    begin = time.perf_counter()
    path.write_bytes(data)
    return time.perf_counter() - begin


if __name__ == "__main__":
    answer_request(measure)
