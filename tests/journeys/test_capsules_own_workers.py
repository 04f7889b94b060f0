"""A user's function holds a step of two workers, and both replay it."""

from __future__ import annotations

import json
from typing import Any

from forking import TORCH

FORKED = TORCH

CHECKS = """
def steep(update):
    return update.losses[0] > 1000 and f"step {update.step} is too steep, loss {update.losses[0]:g}"
"""

SCRIPT = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
inputs, targets = torch.randn(32, 8), torch.randn(32, 1)
inputs[15] *= 300  # the second worker's fourth batch
data = TensorDataset(inputs, targets)
loader = DataLoader(data, 2, sampler=DistributedSampler(data, shuffle=False))
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Tanh(), nn.Linear(16, 1))
model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for x, y in loader:
    loss = ((model(x) * x.sum(1, keepdim=True) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
dist.destroy_process_group()
"""


def test_the_worker_whose_function_held_the_step_is_named_and_called_again(desk: Any) -> None:
    desk.write("checks.py", CHECKS)
    desk.write("train.py", SCRIPT)
    command = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py")
    ended = desk.run("--record", "--budget", "off", "--rules", "none", "--set", "recorder.when=checks:steep", *command)
    assert "step 3 is too steep" in ended.err
    assert "The update of step 3 was withheld." in ended.err
    assert len(list((desk.folder / "run" / "capsules").iterdir())) == 2
    # Named by the run alone; of both workers each makes its own part again.
    replayed = desk.end(desk.start("barograph", "replay", "--json", "run", "--no-samples"))
    assert replayed.code == 0, replayed.err
    result = json.loads(replayed.out)
    assert result["capsule"].endswith("-r1")
    assert result["grade"] == "bitwise"
    assert (result["own"]["holds"], result["notes"]) == (True, [])
    assert result["own"]["text"] in ended.err
