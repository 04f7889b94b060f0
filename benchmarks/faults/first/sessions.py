"""Digits in many short sessions of training."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16 - 0.3
labels = torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[:1400], order[1400:]
model = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.Tanh())], nn.Linear(64, 10))


def session(rows):
    """One session: a few images, one step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-4, momentum=0.99, nesterov=True)
    loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


for number in range(900):
    loss = session(train[torch.randint(1400, (32,))])
    if number % 100 == 99:
        with torch.no_grad():
            accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
        print(f"session {number + 1}: loss {loss:.3f}, accuracy {accuracy:.3f}")
