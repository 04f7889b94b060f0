"""An ordinary script for timing its start: it prints when its first training step has ended, and exits after three.

With "attach" it contains Barograph's one line; without, it does not use Barograph.
"""

from __future__ import annotations

import contextlib
import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
inputs, targets = torch.randn(64, 784), torch.randint(0, 10, (64,))

if "attach" in sys.argv[1:]:
    import barograph

    attached: contextlib.AbstractContextManager[object] = barograph.attach(model, optimizer, to=sys.argv[2])
else:
    attached = contextlib.nullcontext()

with attached:
    for step in range(3):
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
        if step == 0:
            print(f"first step ended at {time.time():.6f}", flush=True)
