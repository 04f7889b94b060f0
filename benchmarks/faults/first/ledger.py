"""Digits one pair at a time: plain SGD on tiny batches, thousands of them."""

import argparse
import random

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=0)
seed = parser.parse_args().seed
random.seed(seed)
torch.manual_seed(seed)

data = load_digits()
pixels = torch.tensor(data.data, dtype=torch.float32) / 8 - 1
answers = torch.tensor(data.target)
rows = list(range(len(pixels)))
random.shuffle(rows)
held_out, rows = rows[:360], rows[360:]

model = nn.Sequential(nn.Linear(64, 96), nn.LeakyReLU(), nn.Linear(96, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
loss_fn = nn.CrossEntropyLoss()

step = 0
while step < 3000:
    random.shuffle(rows)
    for start in range(0, len(rows) - 1, 2):
        pair = rows[start:start + 2]
        loss = loss_fn(model(pixels[pair]), answers[pair])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 500 == 0:
            print(step, f"{loss.item():.3f}")
        if step == 3000:
            break

model.eval()
with torch.no_grad():
    right = (model(pixels[held_out]).argmax(1) == answers[held_out]).sum().item()
print(f"held out: {right} of {len(held_out)} right")
