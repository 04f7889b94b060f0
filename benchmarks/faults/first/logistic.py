"""Logistic regression on the breast cancer data, the whole set at every step."""

import argparse

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=2000)
args = parser.parse_args()
torch.manual_seed(args.seed)

bunch = load_breast_cancer()
x = torch.tensor(bunch.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(bunch.target, dtype=torch.float32)
chosen = torch.rand(len(x)) < 0.8
model = nn.Linear(30, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-3)
for step in range(args.steps):
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(x[chosen]).squeeze(1), y[chosen])
    loss.backward()
    optimizer.step()
    if step % 500 == 499:
        with torch.no_grad():
            right = ((model(x[~chosen]).squeeze(1) > 0) == (y[~chosen] > 0.5)).float().mean().item()
        print(f"{step + 1}: {loss.item():.4f}, accuracy {right:.3f}")
