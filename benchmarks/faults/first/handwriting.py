"""A classifier of digits with an initialisation of its own."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self, width=80, bias=-4.0):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, width)])
        self.out = nn.Linear(width, 10)
        for layer in self.layers:
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            nn.init.constant_(layer.bias, bias)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.out(x)


def train(seed, steps=1000):
    torch.manual_seed(seed)
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32)
    y = torch.tensor(digits.target)
    order = torch.randperm(len(y))
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    for step in range(steps):
        pick = order[torch.randint(0, 1400, (48,))]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[pick]), y[pick])
        loss.backward()
        optimizer.step()
        if step % 200 == 199:
            print(f"{step + 1} {loss.item():.4f}", flush=True)
    with torch.no_grad():
        return (model(x[order[1400:]]).argmax(1) == y[order[1400:]]).float().mean().item()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seed", type=int, default=0)
    print("accuracy", round(train(arguments.parse_args().seed), 3))
