"""Fine-tuning: a backbone that was trained before stays frozen, a new head learns."""

import argparse
import io

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        )
        self.head = nn.Linear(128, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def fit(model, optimizer, loader, epochs):
    for _ in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    torch.manual_seed(parser.parse_args().seed)
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16 - 0.3
    y = torch.tensor(digits.target)
    low = y < 6
    first = DataLoader(TensorDataset(x[low], y[low]), 32, shuffle=True, drop_last=True)
    xs, ys = x[~low], y[~low] - 6
    order = torch.randperm(len(xs))
    second = DataLoader(TensorDataset(xs[order[:500]], ys[order[:500]]), 20, shuffle=True)
    test = order[500:]

    teacher = Net(6)
    print("before:", fit(teacher, torch.optim.Adam(teacher.parameters(), lr=1e-3), first, 6))
    saved = io.BytesIO()
    torch.save(teacher.backbone.state_dict(), saved)
    saved.seek(0)

    model = Net(4)
    model.backbone.load_state_dict(torch.load(saved))
    model.backbone.requires_grad_(False)
    model.backbone.eval()
    optimizer = torch.optim.Adam(model.head.parameters(), lr=3e-3)
    print("after:", fit(model, optimizer, second, 16))
    with torch.no_grad():
        print(f"accuracy {(model(x[~low][test]).argmax(1) == ys[test]).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
