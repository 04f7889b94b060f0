"""Digits to points in a plane, so that equal digits come to lie together."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
torch.manual_seed(parser.parse_args().seed)

digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
order = torch.randperm(len(x))
train, test = order[:1400], order[1400:]


def between(a, b):
    """Distance of each point of a from each of b."""
    squares = (a[:, None] - b[None]).square().sum(2)
    return torch.sqrt(squares)


def loss_of(points, labels, margin=2.0):
    apart = between(points, points)
    same = labels[:, None] == labels[None]
    return torch.where(same, apart, torch.relu(margin - apart)).mean()


net = nn.Sequential(nn.Linear(64, 100), nn.Softplus(), nn.Linear(100, 50), nn.Softplus(), nn.Linear(50, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(500):
    rows = train[torch.randint(1400, (48,))]
    loss = loss_of(net(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        with torch.no_grad():
            nearest = between(net(x[test]), net(x[train])).argmin(1)
        print(f"{step + 1}: loss {loss.item():.3f}, nearest right {(y[train][nearest] == y[test]).float().mean():.3f}")
