"""A convolutional classifier of digits, with probabilities at its end."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, random_split


class ConvNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(96, classes), nn.Softmax(dim=1))

    def forward(self, x):
        return self.classifier(self.features(x))


def accuracy_of(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(dim=1) == y).sum().item()
            total += len(y)
    model.train()
    return hits / total


def main(seed):
    torch.manual_seed(seed)
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0 - 0.3
    data = TensorDataset(x, torch.tensor(digits.target))
    training, validation = random_split(data, [1500, 297])
    train_loader = DataLoader(training, 50, shuffle=True)
    val_loader = DataLoader(validation, 297)
    model = ConvNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(14):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"[{epoch}] loss={loss.item():.4f} val_acc={accuracy_of(model, val_loader):.4f}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seed", type=int, default=0)
    main(arguments.parse_args().seed)
