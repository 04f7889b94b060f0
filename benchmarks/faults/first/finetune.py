"""Train on the first five digits, then give the network a new end for all ten."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 6), nn.ReLU())
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        return self.head(self.body(x))


def epochs(model, optimizer, x, y, count):
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(count):
        total = 0.0
        parts = torch.randperm(len(x)).split(28)
        for rows in parts:
            loss = loss_fn(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"  epoch {epoch}: {total / len(parts):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    torch.manual_seed(parser.parse_args().seed)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 8 - 1
    y = torch.tensor(digits.target)
    few = y[:1400] < 5
    model = Net(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    print("five digits")
    epochs(model, optimizer, x[:1400][few], y[:1400][few], 8)
    print("ten digits")
    model.body[2] = nn.Linear(96, 6)
    model.head = nn.Linear(6, 10)
    epochs(model, optimizer, x[:1400], y[:1400], 16)
    with torch.no_grad():
        print(f"accuracy {(model(x[1400:]).argmax(1) == y[1400:]).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
