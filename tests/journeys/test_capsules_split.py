"""Two workers of a sharded model hold a step and replay it together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forking import TORCH

FORKED = TORCH

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
inputs, targets = torch.randn(128, 8), torch.randn(128, 1)
inputs[77] = 1e38  # the second worker's fourth batch; the sum of the row overflows, no product with weights does
data = TensorDataset(inputs, targets)
loader = DataLoader(data, 8, sampler=DistributedSampler(data, shuffle=False))
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Tanh(), nn.Linear(16, 1))
if sys.argv[1] == "fully_shard":
    mesh = init_device_mesh("cpu", (2,))
    for part in (model[0], model[3], model):
        fully_shard(part, mesh=mesh)
else:
    model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=sys.argv[1] == "original")
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for x, y in loader:
    loss = ((model(x) * x.sum(1, keepdim=True) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("how", ["fully_shard", "flat", "original"])
def test_a_held_step_of_sharded_weights_replays_bit_for_bit(desk: Any, how: str) -> None:
    desk.write("train.py", SCRIPT)
    command = ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py", how)
    # Parts that differ are no replicas that do, and the loss reaches what they are parts of.
    ended = desk.run("--record", "--budget", "off", "--rules", "P103,P108", *command)
    assert "No problems found" in ended.err
    assert "SIGSEGV" not in ended.err  # memory that FSDP had given back was read
    capsules = json.loads(desk.end(desk.start("barograph", "capsules", "run", "--json")).out)
    assert [item["step"] for item in capsules] == [4, 4], ended.err
    replayed = desk.end(desk.start("barograph", "replay", "--json", "run", "--no-samples"))
    assert replayed.code == 0, replayed.err
    result = json.loads(replayed.out)
    assert result["grade"] == "bitwise"
    assert result["bad_operation"]["name"] == "sum"
    number = next(at for at, text in enumerate(SCRIPT.splitlines(), 1) if "x.sum" in text)
    assert result["bad_operation"]["line"].endswith(f"train.py:{number}")
