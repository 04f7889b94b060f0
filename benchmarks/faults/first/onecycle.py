"""Digits with small batches whose gradients are gathered four at a time."""

import argparse

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

GATHERED = 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x / 16 - 0.3, y, test_size=277, random_state=args.seed)
    x_train, x_test = (torch.tensor(part, dtype=torch.float32) for part in (x_train, x_test))
    y_train, y_test = torch.tensor(y_train), torch.tensor(y_test)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=8, shuffle=True)
    model = nn.Sequential(
        nn.Linear(64, 96), nn.LayerNorm(96), nn.GELU(), nn.Dropout(0.2),
        nn.Linear(96, 96), nn.LayerNorm(96), nn.GELU(), nn.Dropout(0.2), nn.Linear(96, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    epochs = 16
    total = epochs * len(loader) // GATHERED + 1
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=total)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    seen = 0
    for epoch in range(epochs):
        model.train()
        for xb, yb in loader:
            loss = criterion(model(xb), yb) / GATHERED
            loss.backward()
            seen += 1
            if seen % GATHERED == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
        model.eval()
        with torch.no_grad():
            logits = model(x_test)
            print(f"epoch {epoch}: {criterion(logits, y_test).item():.3f} {(logits.argmax(1) == y_test).float().mean():.3f}")


main()
