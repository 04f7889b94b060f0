"""Digits with dropout, checked after every epoch."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 60)
        self.fc2 = nn.Linear(60, 60)
        self.fc3 = nn.Linear(60, 10)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.drop(F.relu(self.fc1(x)))
        x = self.drop(F.relu(self.fc2(x)))
        return self.fc3(x)


def check(model, loader):
    loss = right = count = 0
    with torch.no_grad():
        for x, y in loader:
            logits = model(x)
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            right += (logits.argmax(1) == y).sum().item()
            count += len(y)
    return loss / count, right / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    torch.manual_seed(parser.parse_args().seed)
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16 - 0.3, torch.tensor(digits.target))
    train, test = torch.utils.data.random_split(data, [1347, 450])
    train, test = DataLoader(train, 32, shuffle=True), DataLoader(test, 150)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    model.train()
    for epoch in range(15):
        for x, y in train:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        loss, accuracy = check(model, test)
        print(f"epoch {epoch}: test loss {loss:.3f}, accuracy {accuracy:.3f}")


main()
