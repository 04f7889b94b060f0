"""A wide network, its weights drawn from a normal distribution."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn


class Wide(nn.Module):
    def __init__(self, width=256, scale=1.0):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(64, width) * scale)
        self.b1 = nn.Parameter(torch.zeros(width))
        self.w2 = nn.Parameter(torch.randn(width, width) * scale)
        self.b2 = nn.Parameter(torch.zeros(width))
        self.w3 = nn.Parameter(torch.randn(width, 10) * scale)
        self.b3 = nn.Parameter(torch.zeros(10))

    def forward(self, x):
        h = torch.relu(x @ self.w1 + self.b1)
        h = torch.relu(h @ self.w2 + self.b2)
        return h @ self.w3 + self.b3


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
seed = parser.parse_args().seed
torch.manual_seed(seed)
digits = load_digits()
x = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
order = torch.randperm(len(x))
train, test = order[:1300], order[1300:]
model = Wide()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
for step in range(700):
    rows = train[torch.randint(1300, (32,))]
    loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        with torch.no_grad():
            logits = model(x[test])
        print(f"{step + 1}: loss {loss.item():.3f}, test loss {nn.functional.cross_entropy(logits, y[test]).item():.3f}, "
              f"accuracy {(logits.argmax(1) == y[test]).float().mean().item():.3f}")
