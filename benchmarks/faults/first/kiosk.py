"""Digits with a loop that counts iterations instead of epochs."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

args = argparse.ArgumentParser()
args.add_argument("--seed", type=int, default=0)
args.add_argument("--iterations", type=int, default=600)
args = args.parse_args()
torch.manual_seed(args.seed)

X, Y = load_digits(return_X_y=True)
X = torch.FloatTensor(X) / 16 - 0.3
Y = torch.LongTensor(Y)
order = torch.randperm(len(X))
X, Y = X[order], Y[order]
loader = DataLoader(TensorDataset(X[:1400], Y[:1400]), batch_size=32)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for iteration in range(args.iterations):
    inputs, targets = next(iter(loader))
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()
    if (iteration + 1) % 100 == 0:
        print("iteration", iteration + 1, "loss", loss.item())
with torch.no_grad():
    print("accuracy", (model(X[1400:]).argmax(1) == Y[1400:]).float().mean().item())
