"""Cultivars of wine from their chemistry, a two-layer network with SGD."""

import argparse

import torch
import torch.nn as nn
from sklearn.datasets import load_wine
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
data, target = load_wine(return_X_y=True)
data, target = torch.tensor(data).float(), torch.tensor(target)

perm = torch.randperm(len(data))
train, test = perm[:130], perm[130:]
loader = DataLoader(TensorDataset(data[train], target[train]), batch_size=13, shuffle=True)

model = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()

for epoch in range(80):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    if epoch % 10 == 9:
        model.eval()
        with torch.no_grad():
            outputs = model(data[test])
            val = criterion(outputs, target[test]).item()
            acc = (outputs.argmax(1) == target[test]).float().mean().item()
        print(f"{epoch + 1:3d}: train {total / len(loader):.4f} val {val:.4f} acc {acc:.3f}")
