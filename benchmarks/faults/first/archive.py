"""Digits as they lie in the archive, one folder a class."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset


def folders():
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16 - 0.3
    y = torch.tensor(digits.target)
    for label in range(10):
        rows = (y == label).nonzero().flatten()
        yield TensorDataset(x[rows[:-30]], y[rows[:-30]]), TensorDataset(x[rows[-30:]], y[rows[-30:]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    train, test = (ConcatDataset(part) for part in zip(*folders()))
    loader = DataLoader(train, batch_size=25)
    net = nn.Sequential(
        nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(10, 20, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(320, 10),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right = 0
        with torch.no_grad():
            for x, y in DataLoader(test, batch_size=100):
                right += int((net(x).argmax(1) == y).sum())
        print(f"epoch {epoch}: {loss.item():.4f}, {right} of {len(test)}")


main()
