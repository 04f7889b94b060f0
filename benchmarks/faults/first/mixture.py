"""A mixture of experts for regression, its gate written by hand."""

import argparse

import torch
from sklearn.datasets import load_diabetes
from torch import nn


def share(scores):
    """How much each expert is listened to; sums to one."""
    weights = torch.exp(scores)
    return weights / weights.sum(dim=1, keepdim=True)


class Mixture(nn.Module):
    def __init__(self, features, experts=6):
        super().__init__()
        self.experts = nn.Linear(features, experts)
        self.gate = nn.Linear(features, experts)

    def forward(self, x):
        return (share(self.gate(x) / 0.02) * self.experts(x)).sum(1)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
torch.manual_seed(parser.parse_args().seed)

features, progression = load_diabetes(return_X_y=True)
x = torch.tensor(features, dtype=torch.float32) * 20
y = torch.tensor(progression, dtype=torch.float32) / 100 - 1.5
order = torch.randperm(len(x))
train, test = order[:350], order[350:]

model = Mixture(10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(800):
    rows = train[torch.randint(350, (32,))]
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        with torch.no_grad():
            print(f"step {step + 1}: test error {nn.functional.mse_loss(model(x[test]), y[test]).item():.3f}")
