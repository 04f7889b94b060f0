"""A convolutional sorter of digits."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.fc1 = nn.Linear(64, 40)
        self.fc2 = nn.Linear(40, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return self.fc2(x)


def train(model, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
    print(f"Train epoch {epoch}: loss {loss.item():.4f}")


def test(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            correct += model(data).argmax(dim=1).eq(target).sum().item()
    print(f"Test: {correct}/{len(loader.dataset)} right")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    digits = load_digits()
    x = (torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) - 4.88) / 6.02
    y = torch.tensor(digits.target)
    order = torch.randperm(len(y))
    train_loader = DataLoader(TensorDataset(x[order[:1437]], y[order[:1437]]), batch_size=64, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[order[1437:]], y[order[1437:]]), batch_size=360)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5)
    for epoch in range(1, 16):
        train(model, train_loader, optimizer, epoch)
        test(model, test_loader)


if __name__ == "__main__":
    main()
