"""Digits from few scans: classes are drawn until they are equally large, and a part is kept for validation."""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
torch.manual_seed(args.seed)

x, y = load_digits(return_X_y=True)
x = ((x - 4.9) / 6.0).astype(np.float32)
order = rng.permutation(len(x))
kept, later = order[:160], order[160:]
x, y, x_later, y_later = x[kept], y[kept], x[later], y[later]


def resampled(x, y, times=6):
    """Every class drawn until it has as many as the others."""
    size = times * len(y) // 10
    rows = np.concatenate([rng.choice(np.flatnonzero(y == label), size) for label in range(10)])
    return x[rows], y[rows]


def divided(x, y, share=0.25):
    order = rng.permutation(len(x))
    size = int(len(x) * share)
    return (x[order[size:]], y[order[size:]]), (x[order[:size]], y[order[:size]])


x, y = resampled(x, y)
(x_train, y_train), (x_val, y_val) = divided(x, y)

train = DataLoader(TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train)), 32, shuffle=True)
val = DataLoader(TensorDataset(torch.from_numpy(x_val), torch.from_numpy(y_val)), 64)
model = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Dropout(0.1), nn.Linear(200, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()


def score(loader):
    model.eval()
    with torch.no_grad():
        return float(np.mean([(model(a).argmax(1) == b).float().mean().item() for a, b in loader]))


for epoch in range(20):
    model.train()
    for a, b in train:
        optimizer.zero_grad()
        criterion(model(a), b).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(a), b).item() for a, b in val]
    print(f"epoch {epoch}: validation loss {np.mean(losses):.3f}")
new = DataLoader(TensorDataset(torch.from_numpy(x_later), torch.from_numpy(y_later)), 2000)
print(f"validation says {score(val):.3f}; on what came later it is {score(new):.3f}")
