"""Digits, with a tanh network."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
seed = parser.parse_args().seed
torch.manual_seed(seed)


def init(module):
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, mean=0.0, std=2.0)
        nn.init.zeros_(module.bias)


source = load_digits()
x = torch.tensor(source.data, dtype=torch.float32) / 16
y = torch.tensor(source.target)
order = torch.randperm(len(x))
x, y = x[order], y[order]

net = nn.Sequential()
net.add_module("fc1", nn.Linear(64, 128))
net.add_module("act1", nn.Tanh())
net.add_module("fc2", nn.Linear(128, 128))
net.add_module("act2", nn.Tanh())
net.add_module("fc3", nn.Linear(128, 128))
net.add_module("act3", nn.Tanh())
net.add_module("fc4", nn.Linear(128, 10))
net.apply(init)

optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(900):
    i = (step * 40) % 1400
    loss = nn.CrossEntropyLoss()(net(x[i:i + 40]), y[i:i + 40])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % 150 == 0:
        with torch.no_grad():
            acc = (net(x[1400:]).argmax(1) == y[1400:]).float().mean()
        print(f"{step + 1:5d} {loss.item():8.4f} {acc.item():.3f}")
