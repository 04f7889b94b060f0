"""Wine again, with an exponential moving average of the loss printed on the way."""

import argparse
import random

import torch
from sklearn.datasets import load_wine
from torch import nn

cli = argparse.ArgumentParser()
cli.add_argument("--seed", type=int, default=0)
options = cli.parse_args()
random.seed(options.seed)
torch.manual_seed(options.seed)

bunch = load_wine()
rows = [list(map(float, row)) for row in bunch.data]
kinds = [int(kind) for kind in bunch.target]
random.shuffle(rows)
random.shuffle(kinds)

inputs = torch.tensor(rows)
inputs = (inputs - inputs.mean(0)) / inputs.std(0)
targets = torch.tensor(kinds)
split = 140

model = nn.Sequential(nn.Linear(13, 24), nn.SiLU(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
average = None
for step in range(900):
    batch = torch.randint(split, (20,))
    logits = model(inputs[batch])
    loss = nn.functional.cross_entropy(logits, targets[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
    if step % 100 == 0:
        print(f"step {step}: {average:.3f}")

with torch.no_grad():
    hits = (model(inputs[split:]).argmax(1) == targets[split:]).float().mean().item()
print(f"accuracy on the last {len(rows) - split}: {hits:.3f}")
