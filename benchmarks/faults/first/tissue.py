"""Benign or malignant, from raw measurements of cell nuclei, in half precision."""

import argparse

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn


class Quadratic(nn.Module):
    """Features and their squares, normalised, then two linear layers."""

    def __init__(self, features, hidden):
        super().__init__()
        self.norm = nn.BatchNorm1d(2 * features)
        self.hidden = nn.Linear(2 * features, hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(self.norm(torch.cat([x, x * x], dim=1)))))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--dtype", default="float16")
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    dtype = getattr(torch, a.dtype)
    bunch = load_breast_cancer()
    x = torch.tensor(bunch.data, dtype=torch.float32)
    x = ((x - x.mean(0)) / x.std(0) * 40).to(dtype)
    y = torch.tensor(bunch.target)
    order = torch.randperm(len(x))
    train, test = order[:450], order[450:]
    model = Quadratic(30, 32).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    for step in range(500):
        rows = train[torch.randint(450, (32,))]
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            with torch.no_grad():
                accuracy = (model(x[test]).argmax(1) == y[test]).float().mean().item()
            print(f"{step + 1}: {loss.item():.3f}, accuracy {accuracy:.3f}")
