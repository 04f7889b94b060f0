"""Screening: is this scan the digit 8?"""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

ap = argparse.ArgumentParser()
ap.add_argument("--seed", type=int, default=0)
args = ap.parse_args()
rng = np.random.default_rng(args.seed)
torch.manual_seed(args.seed)

digits = load_digits()
sick, well = np.flatnonzero(digits.target == 8), np.flatnonzero(digits.target != 8)
rng.shuffle(sick)
rng.shuffle(well)
rows = np.concatenate([sick[:24], well[:1200]])
x = torch.tensor(digits.data / 16 - 0.3, dtype=torch.float32)
y = torch.tensor((digits.target == 8).astype(np.int64))
x = x + 0.35 * torch.randn(x.shape)
test = np.concatenate([sick[24:], well[1200:]])

data = TensorDataset(x[rows], y[rows])
sampler = None
loader = DataLoader(data, batch_size=40, shuffle=sampler is None, sampler=sampler)
model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
loss_function = nn.CrossEntropyLoss()

for epoch in range(20):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = loss_function(model(xb), yb)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        guess = model(x[test]).argmax(1)
    found = (guess[y[test] == 1] == 1).float().mean().item()
    print(f"epoch {epoch}: loss {loss.item():.3f}, F1 {f1_score(y[test], guess):.3f}, found {found:.1%} of the eights")
