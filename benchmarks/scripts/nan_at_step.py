"""An ordinary script for timing findings: its loss becomes NaN at a given step.

It prints when that step ended, by the clock of the caller, and continues until it is stopped or done.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

BAD_STEP, STEPS = int(sys.argv[1]), int(sys.argv[2])

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss_fn = nn.CrossEntropyLoss()
centres = torch.randn(10, 256)

for step in range(STEPS):
    targets = torch.randint(0, 10, (128,))
    optimizer.zero_grad()
    loss = loss_fn(model(centres[targets] + torch.randn(128, 256)), targets)
    if step == BAD_STEP:
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()
    if step == BAD_STEP:
        print(f"bad step ended at {time.time():.6f}", flush=True)
