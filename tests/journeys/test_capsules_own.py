"""A user's function holds a step, and the replay calls it to find the sample."""

from __future__ import annotations

import json
from typing import Any

from forking import TORCH

FORKED = TORCH

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import barograph


def main():
    torch.manual_seed(0)
    inputs = torch.randn(8, 4)
    inputs[5] *= 100
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    steep = lambda update: update.norms["weight"] > 50 and f"{update.norm:.0f} is too steep"
    with barograph.attach(model, optimizer, to="run", watch=False, recorder={"when": steep}):
        for rows, in DataLoader(TensorDataset(inputs), batch_size=2):
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


if __name__ == "__main__":
    main()
"""


def test_the_sample_that_the_users_function_rejects_is_named_and_the_run_is_unchanged(desk: Any) -> None:
    desk.write("train.py", SCRIPT)
    ended = desk.python("train.py")
    assert "is too steep. The update of step 2 was withheld." in ended.err
    # A function without a name that could be imported is known by name in the run all the same.
    assert "the writer process has ended" not in ended.err
    files = sorted(path for path in (desk.folder / "run").rglob("*"))
    replayed = desk.end(desk.start("barograph", "replay", "--json", "run", "train.py"))
    result = json.loads(replayed.out)
    assert (replayed.code, result["grade"]) == (0, "bitwise"), replayed.err
    assert result["own"]["holds"] is True
    assert result["own"]["text"].endswith("is too steep")
    assert result["norm"] > 50 > 1.001 > max(item["norm_now"] for item in result["gradients"])
    assert (result["guilty"]["rows"], result["guilty"]["without_them"]) == ([1], True)
    assert [item["index"] for item in result["guilty"]["samples"]] == ["5"]
    # What the script attaches is no run of a replay: only the result is added to the one that is there.
    assert [path.name for path in (desk.folder / "run").rglob("*") if path not in files] == ["replay.json"]
