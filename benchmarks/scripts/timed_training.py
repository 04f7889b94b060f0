"""A small training that notes when it started, had imported, and ended its first step."""

import json
import sys
import time

started = time.time()

import os  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

imported = time.time()
folder = Path(sys.argv[1])
model: torch.nn.Module = torch.nn.Linear(8, 3)
if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5 if dist.is_initialized() else 100_000):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    if step == 0 and os.environ.get("RANK", "0") == "0":
        part = folder / f".{time.time_ns()}"
        part.write_text(json.dumps({"started": started, "imported": imported, "first_step": time.time()}))
        part.rename(folder / f"first-{time.time_ns()}.json")
    if (folder / "go").exists():
        break
    time.sleep(0.02)
if dist.is_initialized():
    dist.destroy_process_group()
