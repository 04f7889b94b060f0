"""A convolutional network with batch normalisation and dropout, on digits."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = block(1, 16)
        self.body = nn.Sequential(block(16, 16), block(16, 16), nn.MaxPool2d(2), block(16, 32), block(32, 32))
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(32 * 16, 10)

    def forward(self, x):
        return self.head(self.dropout(self.body(self.stem(x)).flatten(1)))


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return right / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None]
    y = torch.tensor(digits.target)
    order = torch.randperm(len(x))
    few, rest = order[:600], order[600:]
    train = DataLoader(TensorDataset(x[few], y[few]), batch_size=30, shuffle=True)
    test = DataLoader(TensorDataset(x[rest], y[rest]), batch_size=400)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    print(f"before training: {evaluate(model, test):.3f}")
    for epoch in range(12):
        for x, y in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    print(f"after training: {evaluate(model, test):.3f}")


main()
