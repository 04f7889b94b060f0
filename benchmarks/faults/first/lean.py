"""A lean classifier of digits with AdamW."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

cfg = argparse.ArgumentParser()
cfg.add_argument("--seed", type=int, default=0)
cfg.add_argument("--wd", type=float, default=20.0)
cfg = cfg.parse_args()
torch.manual_seed(cfg.seed)

digits = load_digits()
x = torch.tensor(digits.images[:, None], dtype=torch.float32) / 16 - 0.3
y = torch.tensor(digits.target)
x_train, y_train, x_val, y_val = x[:1400], y[:1400], x[1400:], y[1400:]

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.GELU(),
    nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=cfg.wd)
for epoch in range(15):
    order = torch.randperm(len(x_train))
    for rows in order.chunk(35):
        loss = nn.functional.cross_entropy(model(x_train[rows]), y_train[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        val = nn.functional.cross_entropy(model(x_val), y_val).item()
        acc = (model(x_val).argmax(1) == y_val).float().mean().item()
    print(f"{epoch}: train {loss.item():.3f} val {val:.3f} acc {acc:.3f}")
